import { setTimeout as sleep } from "node:timers/promises";
import type { Budget } from "../base/budget.js";
import { guardedLogger, type Logger, silentLogger } from "../base/logger.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore, ReapOptions, ReapResult } from "../queue/work-store.js";
import type { DispatchResult } from "./dispatch-run.js";
import type { Dispatcher } from "./dispatcher.js";
import { describeThrown } from "./settlement.js";

/** Tells a worker that there may be work, sooner than its next poll. Answers how to stop listening. */
export type WakeUpSource = (wake: () => void, signal: AbortSignal) => Promise<() => Promise<void>>;

export interface WorkerOptions<Message extends QueueMessage, Tx, Stored extends Message = Message> {
  readonly dispatcher: Dispatcher<Message, Tx>;
  readonly store: DispatchStore<Stored, Tx> & { reapExpired(options?: ReapOptions): Promise<ReapResult> };
  /** Between two polls that found something: 500 ms by default. */
  readonly pollMs?: number;
  /** With nothing to do, polls slow down to this: 5 s by default. Minutes let a serverless database sleep. */
  readonly idlePollMs?: number;
  /** Between two reaps of expired leases: 60 s by default. */
  readonly reapMs?: number;
  /** What handlers get to finish in when the worker stops: 10 s by default. */
  readonly drainMs?: number;
  readonly wakeUp?: WakeUpSource;
  readonly logger?: Logger;
  /** For tests: instead of waiting for so long. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

export interface Worker {
  /** Stops polling, lets running handlers finish or abort, settles. Resolves when all is settled. */
  stop(): Promise<void>;
  /** Polls now. */
  wake(): void;
}

/** For those who have a server: polls a store for as long as the process lives. */
export function createWorker<Message extends QueueMessage, Tx, Stored extends Message>(
  options: WorkerOptions<Message, Tx, Stored>,
): Worker {
  refuseUnknown(
    options,
    ["dispatcher", "store", "pollMs", "idlePollMs", "reapMs", "drainMs", "wakeUp", "logger", "pause"],
    "createWorker",
  );
  const { dispatcher, store } = options;
  const pollMs = options.pollMs ?? 500;
  const idlePollMs = options.idlePollMs ?? 5_000;
  const reapMs = options.reapMs ?? 60_000;
  requireDuration(pollMs, "pollMs");
  requireDuration(idlePollMs, "idlePollMs");
  const drainMs = options.drainMs ?? 10_000;
  requireDuration(reapMs, "reapMs");
  requireDuration(drainMs, "drainMs");
  const logger = guardedLogger(options.logger ?? silentLogger);
  const stopping = new AbortController();
  let waking = new AbortController();
  let woken = false;
  let endsAt = Number.POSITIVE_INFINITY;
  const budget: Budget = {
    signal: stopping.signal,
    remainingMs: () => Math.max(0, endsAt - performance.now()),
  };

  const wake = (): void => {
    woken = true;
    waking.abort();
  };

  const wait = options.pause ?? ((ms, signal) => sleep(ms, undefined, { signal }));
  const pause = async (ms: number): Promise<void> => {
    if (woken || stopping.signal.aborted) return;
    waking = new AbortController();
    await wait(ms, AbortSignal.any([waking.signal, stopping.signal])).catch(() => {}); // woken
  };

  const attempt = async <T>(what: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      if (!stopping.signal.aborted)
        logger.error(`${what} failed`, { store: store.id, error: describeThrown(error) });
      return undefined;
    }
  };

  const loop = async (): Promise<void> => {
    const stopListening = await attempt("listening for wake-ups", async () =>
      options.wakeUp?.(wake, stopping.signal),
    );
    let waitMs = pollMs;
    let reapAt = performance.now();
    while (!stopping.signal.aborted) {
      woken = false;
      if (performance.now() >= reapAt) {
        await attempt("reap", () => store.reapExpired({ signal: stopping.signal }));
        reapAt = performance.now() + reapMs;
      }
      const result: DispatchResult | undefined = await attempt("dispatch", () =>
        dispatcher.run(store, budget),
      );
      // Doubling from the poll interval; whatever is found, or wakes it, starts over.
      waitMs =
        result !== undefined && result.claimed > 0
          ? pollMs
          : Math.min(waitMs * 2, Math.max(idlePollMs, pollMs));
      if (woken) waitMs = pollMs;
      else await pause(waitMs);
    }
    await attempt("stopping to listen", async () => stopListening?.());
  };

  const running = loop();
  return {
    wake,
    async stop() {
      endsAt = Math.min(endsAt, performance.now() + drainMs);
      stopping.abort();
      waking.abort();
      await running;
    },
  };
}
