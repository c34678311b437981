import { longestTimerMs } from "../base/longest-timer.js";

export interface Changes {
  notify(): void;
  /** Resolves to true at the next change (at once, if there was one since the last), to false after this time. */
  next(withinMs: number): Promise<boolean>;
}

/** Tells the one who waits that something has changed. A change that nobody waited for is not lost. */
export function changes(): Changes {
  let changed = false;
  let resolve: (() => void) | undefined;
  return {
    notify() {
      changed = true;
      resolve?.();
    },
    async next(withinMs) {
      if (!changed && withinMs > 0) {
        let timer: NodeJS.Timeout | undefined;
        await new Promise<void>((done) => {
          resolve = done;
          if (withinMs < longestTimerMs) timer = setTimeout(done, withinMs);
        });
        clearTimeout(timer);
        resolve = undefined;
      }
      // An embedded database answers within the same turn of the event loop. Without leaving it, acknowledgements,
      // timers and everyone else would wait for the end; and what else changes within a turn is the same change.
      await new Promise((done) => setImmediate(done));
      const answer = changed;
      changed = false;
      return answer;
    },
  };
}
