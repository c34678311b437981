import { longestTimerMs } from "./longest-timer.js";

export interface TimeLimits {
  /** Calls `over` after this time, unless the answer is called before. */
  after(ms: number, over: () => void): () => void;
}

interface Limit {
  readonly at: number;
  readonly over: () => void;
}

/**
 * Many limits, one timer. There are two for every look at every tenant and nearly none is ever reached: a timer for
 * each, with a signal to take it back, would cost more than the look itself.
 */
export function timeLimits(): TimeLimits {
  const limits = new Set<Limit>();
  let timer: NodeJS.Timeout | undefined;
  let ringsAt = Number.POSITIVE_INFINITY;

  const arm = (at: number, now: number): void => {
    clearTimeout(timer);
    ringsAt = at;
    // A timer may be a fraction of a millisecond early.
    timer = setTimeout(ring, Math.min(Math.max(0, at - now) + 1, longestTimerMs));
  };

  const ring = (): void => {
    timer = undefined;
    ringsAt = Number.POSITIVE_INFINITY;
    const now = performance.now();
    let earliest = Number.POSITIVE_INFINITY;
    for (const limit of limits) {
      if (limit.at > now) earliest = Math.min(earliest, limit.at);
      else {
        limits.delete(limit);
        limit.over();
      }
    }
    if (earliest < ringsAt) arm(earliest, now);
  };

  return {
    after(ms, over) {
      const now = performance.now();
      const limit = { at: now + ms, over };
      limits.add(limit);
      // One that was armed for a limit that has been taken back rings for nothing, and is armed anew then.
      if (limit.at < ringsAt) arm(limit.at, now);
      else timer?.ref();
      return () => {
        limits.delete(limit);
        if (limits.size === 0) timer?.unref(); // a process need not wait for it
      };
    },
  };
}
