import { abortable } from "../../base/abortable.js";

export type RunAlone = <T>(work: () => Promise<T> | T, signal?: AbortSignal) => Promise<T>;

/** Runs one piece of work at a time, in the order of the calls. */
export function oneAtATime(): RunAlone {
  let last: Promise<void> = Promise.resolve();
  let running = 0;
  return async (work, signal) => {
    const before = last;
    let done = (): void => {};
    last = new Promise((resolve) => {
      done = resolve;
    });
    running++;
    try {
      if (running > 1) await abortable(before, signal);
      return await work();
    } finally {
      running--;
      // A call that was aborted while it waited must not let the next one in before its predecessor has ended.
      void before.then(done);
    }
  };
}
