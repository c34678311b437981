/** How late this process's timers fire: tens of milliseconds on a busy or throttled machine. */
export interface Lateness {
  /** The greatest recent lateness. */
  worstMs(): number;
  /** Measures until the returned function is called. */
  watch(): () => void;
}

const everyMs = 20;

/** Learned over all runs of a dispatcher. Each run starts from half of the worst lateness so far. */
export function lateness(): Lateness {
  let worst = 0;
  return {
    worstMs: () => worst,
    watch() {
      worst /= 2;
      let last = performance.now();
      const timer = setInterval(() => {
        const now = performance.now();
        worst = Math.max(worst, now - last - everyMs);
        last = now;
      }, everyMs);
      timer.unref();
      return () => clearInterval(timer);
    },
  };
}
