import type { Budget } from "../base/budget.js";
import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import { sleep, withDeadline } from "../base/timers.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { DispatchStore, ReapOptions, ReapResult } from "../queue/work-store.js";
import type { RunOptions } from "./dispatch-run.js";
import type { Dispatcher } from "./dispatcher.js";
import { defaultPollIntervals } from "./timing.js";

/** Subscribes to wake-ups: `wake` makes the worker poll before its next poll is due. Returns how to unsubscribe. */
export type WakeUpSource = (wake: () => void, signal: AbortSignal) => Promise<() => Promise<void>>;

export interface WorkerOptions<Message extends QueueMessage, Tx, Stored extends Message = Message> {
  readonly dispatcher: Dispatcher<Message, Tx>;
  readonly store: DispatchStore<Stored, Tx> & { reapExpired(options?: ReapOptions): Promise<ReapResult> };
  /** The wait after the first poll that found nothing: 500 ms by default. */
  readonly pollMs?: number;
  /** The longest wait between polls of an idle queue: 5 s by default. Minutes let a serverless database sleep. */
  readonly idlePollMs?: number;
  /** Between two reaps of expired leases: 60 s by default. */
  readonly reapMs?: number;
  /** The time that handlers get to finish when the worker stops: 10 s by default. */
  readonly drainMs?: number;
  /** The longest that a handler may take, where neither its topic nor the dispatcher has a `timeoutMs`: 5 minutes by default. */
  readonly defaultTimeoutMs?: number;
  /**
   * Ends the process with exit code 1 when as many handlers ignore their signal as may run at once, so that its supervisor
   * starts a new one. By default the worker only logs an error.
   */
  readonly exitWhenStuck?: boolean;
  readonly wakeUp?: WakeUpSource;
  readonly logger?: LoggerOption;
}

export interface Worker {
  /** Stops polling, lets running handlers finish or aborts them, and settles. Resolves when all is settled. */
  stop(): Promise<void>;
  /** Polls now. */
  wake(): void;
}

const durationDefaults = {
  ...defaultPollIntervals,
  reapMs: 60_000,
  drainMs: 10_000,
  defaultTimeoutMs: 5 * 60_000,
};

const otherOptions = ["dispatcher", "store", "exitWhenStuck", "wakeUp", "logger"];

/** A reap that takes longer is given up, so that a silent connection does not end all reaping. */
const longestReapMs = 60_000;
const longestStopListeningMs = 2_000;

/** For a resident process: claims and handles messages of a store for as long as the process lives. */
export function createWorker<Message extends QueueMessage, Tx, Stored extends Message>(
  options: WorkerOptions<Message, Tx, Stored>,
): Worker {
  refuseUnknown(options, [...Object.keys(durationDefaults), ...otherOptions], "createWorker");
  const { pollMs, idlePollMs, reapMs, drainMs, defaultTimeoutMs } = { ...durationDefaults, ...options };
  for (const [name, ms] of Object.entries({ pollMs, idlePollMs, reapMs, drainMs, defaultTimeoutMs }))
    requireDuration(ms, name);
  const { dispatcher, store } = options;
  const logger = loggerOf(options.logger);
  const stopping = new AbortController();
  const { signal } = stopping;
  const wakes = wakeUps();
  let endsAt = Number.POSITIVE_INFINITY;
  const budget: Budget = { signal, remainingMs: () => Math.max(0, endsAt - performance.now()) };

  const report = (what: string, error: unknown): void => {
    if (!signal.aborted) logger.error(`${what} failed`, { store: store.id, error: safeReason(error) });
  };

  const attempt = async <T>(what: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      report(what, error);
      return undefined;
    }
  };

  const wait = (ms: number): Promise<void> => sleep(ms, signal).catch(() => {}); // it stops

  const runOptions: RunOptions = {
    keepPolling: true,
    poll: { pollMs, idlePollMs },
    defaultTimeoutMs,
    onWake: wakes.subscribe,
    onFault: (error) => report("dispatch", error),
    onStuck() {
      if (options.exitWhenStuck) process.exit(1);
    },
  };

  /** One run, until the worker stops. It waits for a database that fails; should it end all the same, another one follows. */
  const dispatch = async (): Promise<void> => {
    while (!signal.aborted) {
      const result = await attempt("dispatch", () => dispatcher.run(store, budget, runOptions));
      if (result === undefined) await wait(idlePollMs);
    }
  };

  const reap = async (): Promise<void> => {
    while (!signal.aborted) {
      await attempt("reap", () =>
        withDeadline(longestReapMs, "A reap", (own) => store.reapExpired({ signal: own }), signal),
      );
      await wait(reapMs);
    }
  };

  const live = async (): Promise<void> => {
    // Not awaited: a source that does not respond must not keep the worker from polling.
    const listening = attempt("listening for wake-ups", async () => options.wakeUp?.(wakes.wake, signal));
    await Promise.all([dispatch(), reap()]);
    await attempt("stopping to listen", () =>
      withDeadline(longestStopListeningMs, "Stopping to listen", async () => (await listening)?.()),
    );
  };

  const running = live();
  return {
    wake: wakes.wake,
    async stop() {
      endsAt = Math.min(endsAt, performance.now() + drainMs);
      stopping.abort();
      await running;
    },
  };
}

/** Passes wake-ups on to the runs that are subscribed at the moment. */
export function wakeUps() {
  const subscribers = new Set<() => void>();
  return {
    wake(): void {
      for (const wake of subscribers) wake();
    },
    /** Returns how to unsubscribe. */
    subscribe(wake: () => void): () => void {
      subscribers.add(wake);
      return () => void subscribers.delete(wake);
    },
  };
}
