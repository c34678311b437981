import { setTimeout as sleep } from "node:timers/promises";

export interface Repeating {
  /** Runs the job now, or once more after the current run. */
  wake(): void;
  /** Waits for the current run. */
  stop(): Promise<void>;
}

/** Runs `job` at once and then at an interval, never twice at the same time. */
export function repeating(everyMs: number, job: (signal: AbortSignal) => Promise<void>): Repeating {
  const stopping = new AbortController();
  let waking = new AbortController();
  let woken = false;

  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      woken = false;
      await job(stopping.signal);
      if (woken || stopping.signal.aborted) continue;
      waking = new AbortController();
      const either = AbortSignal.any([waking.signal, stopping.signal]);
      await sleep(everyMs, undefined, { signal: either }).catch(() => {});
    }
  };
  const running = loop();

  return {
    wake() {
      woken = true;
      waking.abort();
    },
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
