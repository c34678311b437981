import { processTimers } from "../base/timers.js";
import { yieldToEventLoop } from "../base/wait.js";

export interface Changes {
  notify(): void;
  /** Resolves to true at the next change, or at once if there was one since the last call; to false after `withinMs`. */
  next(withinMs: number): Promise<boolean>;
}

/** Wakes a waiting loop when something has changed. A change before the loop waits is kept for it. */
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
        let cancel = (): void => {};
        await new Promise<void>((done) => {
          resolve = done;
          cancel = processTimers.after(withinMs, done);
        });
        cancel();
        resolve = undefined;
      }
      // An embedded database resolves without leaving the event loop's current tick. Leave it here, so that timers and
      // sockets are served, and so that all changes of one tick count as one.
      await yieldToEventLoop();
      const hasChanged = changed;
      changed = false;
      return hasChanged;
    },
  };
}
