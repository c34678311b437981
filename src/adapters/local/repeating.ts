import { setTimeout as sleep } from "node:timers/promises";

export interface Repeating {
  /** Does it now, or once more when it is being done. */
  wake(): void;
  /** Waits for what is being done. */
  stop(): Promise<void>;
}

/** Does `job` at once and then every so often, never twice at the same time: a function's timer, locally. */
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
