/** How late this process comes to its timers: a busy or throttled machine does by tens of milliseconds. */
export interface Lateness {
  /** The most that was seen lately. */
  worstMs(): number;
  /** Watches until the answer is called. */
  watch(): () => void;
}

const everyMs = 20;

/** Learned over all runs of a dispatcher; with every run, what was seen before counts half. */
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
