import { setTimeout as sleep } from "node:timers/promises";

export interface Repeating {
  /** Runs the job now, or once more after the current run. */
  wake(): void;
  /** Waits for the current run. */
  stop(): Promise<void>;
}

export interface RepeatingOptions {
  /** Stops it, as `stop` does. */
  readonly signal?: AbortSignal | undefined;
  /** Whether the wait between two runs keeps the process alive: true by default. */
  readonly keepsAlive?: boolean;
}

/**
 * Runs `job` at once and then at an interval, never twice at the same time. The job handles its own errors. A function is
 * asked after each run how long the next one waits.
 */
export function repeating(
  everyMs: number | (() => number),
  job: (signal: AbortSignal) => Promise<void>,
  { signal: outer, keepsAlive = true }: RepeatingOptions = {},
): Repeating {
  const stopping = new AbortController();
  const { signal } = stopping;
  let waking = new AbortController();
  let woken = false;

  const end = (): void => {
    stopping.abort();
    waking.abort();
  };
  const loop = async (): Promise<void> => {
    while (!signal.aborted) {
      woken = false;
      await job(signal);
      if (woken || signal.aborted) continue;
      waking = new AbortController();
      const waitMs = typeof everyMs === "number" ? everyMs : everyMs();
      await sleep(waitMs, undefined, { signal: waking.signal, ref: keepsAlive }).catch(() => {});
    }
    outer?.removeEventListener("abort", end);
  };
  if (outer?.aborted) end();
  else outer?.addEventListener("abort", end);
  const running = loop();

  return {
    wake() {
      woken = true;
      waking.abort();
    },
    async stop() {
      end();
      await running;
    },
  };
}
