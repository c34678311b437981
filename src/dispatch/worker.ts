import type { Budget } from "../base/async.js";
import { sleep, withDeadline } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { TopicSchemas } from "../queue/topics.js";
import type { DispatchStore, ReapOptions, ReapResult } from "../queue/work-store.js";
import type { RunOptions } from "./dispatch-run.js";
import {
  createDispatcher,
  type Dispatcher,
  type DispatcherOptions,
  dispatcherOptions,
} from "./dispatcher.js";
import type { NoOwnSchemas } from "./handlers.js";
import { defaultPollIntervals } from "./timing.js";

/** Subscribes to wake-ups: `wake` makes the worker poll before its next poll is due. Returns how to unsubscribe. */
export type WakeUpSource = (wake: () => void, signal: AbortSignal) => Promise<() => Promise<void>>;

/** A queue that a worker reaps, beside what its dispatcher does with it. */
interface ReapedStore {
  reapExpired(options?: ReapOptions): Promise<ReapResult>;
}

/** What the worker works on: an inbox or an outbox. */
interface OnStore {
  readonly store: ReapedStore;
}

/** Where polling and stopping differ from the defaults. */
export interface WorkerSettings {
  /** The wait after the first poll that found nothing: 500 ms by default. */
  readonly pollMs?: number;
  /** The longest wait between polls of an idle queue: 5 s by default. Minutes let a serverless database sleep. */
  readonly idlePollMs?: number;
  /** Between two reaps of expired leases: 60 s by default. */
  readonly reapMs?: number;
  /** The time that handlers get to finish when the worker stops: 10 s by default. */
  readonly drainMs?: number;
  /**
   * Ends the process with exit code 1 when as many handlers ignore their signal as may run at once, so that its supervisor
   * starts a new one. By default the worker only logs an error.
   */
  readonly exitWhenStuck?: boolean;
  readonly wakeUp?: WakeUpSource;
}

/** A worker that runs. */
export interface Worker {
  /** Stops polling, lets running handlers finish or aborts them, and settles. Resolves when all is settled. */
  stop(): Promise<void>;
  /** Polls now. */
  wake(): void;
}

export const workerDurations = { ...defaultPollIntervals, reapMs: 60_000, drainMs: 10_000 } as const;

const settingNames = [...Object.keys(workerDurations), "exitWhenStuck", "wakeUp"];

/** A reap that takes longer is given up, so that a silent connection does not end all reaping. */
const longestReapMs = 60_000;
const longestStopListeningMs = 2_000;
/** The longest that a handler may take, where neither its topic nor the dispatcher has a `timeoutMs`. */
const defaultTimeoutMs = 5 * 60_000;

/**
 * For a resident process: claims and handles messages of a store for as long as the process lives.
 *
 * @example
 * const worker = createWorker({ store: inbox, handlers: { "stripe.invoice.paid": ({ data }) => book(data) } });
 * process.once("SIGTERM", () => worker.stop());
 */
export function createWorker<
  Message extends QueueMessage,
  StoreTx = unknown,
  Topics extends TopicSchemas = TopicSchemas,
  Own = NoOwnSchemas<Topics>,
  Tx = StoreTx,
  Sent extends TopicSchemas = TopicSchemas,
  Made = unknown,
>(
  given: DispatcherOptions<Message, StoreTx, Topics, Own, Tx, Sent, Made> & OnStore & WorkerSettings,
): Worker {
  refuseUnknown(given, [...settingNames, ...dispatcherOptions], "createWorker");
  const options = given as unknown as AnyOptions;
  if (typeof options.store?.claim !== "function")
    throw new InvalidArgumentError("createWorker: store must be an inbox or an outbox.");
  const { pollMs, idlePollMs, reapMs, drainMs, exitWhenStuck, wakeUp, ...ofDispatcher } = options;
  const settings = { pollMs, idlePollMs, reapMs, drainMs, exitWhenStuck, wakeUp, logger: options.logger };
  return startWorker(createDispatcher(ofDispatcher), options.store, omitUndefined(settings));
}

type AnyOptions = DispatcherOptions<QueueMessage> &
  WorkerSettings & { readonly store: DispatchStore<QueueMessage> & ReapedStore };

interface StartOptions extends WorkerSettings {
  readonly logger?: LoggerOption;
  /** `false` where another reaper ends the store's expired leases. */
  readonly reaps?: boolean;
}

/** A worker of a dispatcher that also runs elsewhere. */
export function startWorker<Message extends QueueMessage, Tx>(
  dispatcher: Dispatcher<Message, Tx>,
  store: DispatchStore<Message, Tx> & ReapedStore,
  options: StartOptions = {},
): Worker {
  const { pollMs, idlePollMs, reapMs, drainMs } = { ...workerDurations, ...omitUndefined(options) };
  for (const [name, ms] of Object.entries({ pollMs, idlePollMs, reapMs, drainMs })) requireDuration(ms, name);
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
    while (!signal.aborted && options.reaps !== false) {
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
