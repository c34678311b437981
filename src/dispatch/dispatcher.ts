import type { Budget } from "../base/budget.js";
import { type LogFields, type Logger, type LoggerOption, loggerOf } from "../base/logger.js";
import { guardedMetrics, type Metrics, type Telemetry, type Tracing } from "../base/telemetry.js";
import { ArgumentRangeError, InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireBatchSize, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { type RetryPolicy, retryPolicy } from "../queue/retry-policy.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { HandledCount } from "./counts.js";
import { type DispatchResult, DispatchRun, type RunOptions } from "./dispatch-run.js";
import type { HandlerMiddleware } from "./handle-message.js";
import {
  type BeginHandlerTransaction,
  type Handlers,
  type OnUnhandled,
  type ResolvedHandler,
  resolveHandlers,
  type TopicPattern,
  type TopicPlan,
  topicPlans,
} from "./handlers.js";
import { type DurationEstimate, type Lateness, lateness } from "./timing.js";

export interface DispatcherConfig<Message extends QueueMessage, Tx> {
  readonly handlers: ReadonlyMap<TopicPattern, ResolvedHandler<Message, Tx>>;
  readonly planOf: (topic: string) => TopicPlan<Message, Tx>;
  readonly middleware: readonly HandlerMiddleware<Message, Tx>[];
  readonly concurrency: number;
  readonly timeoutMs: number | undefined;
  readonly batchSize: number;
  readonly leaseMs: number;
  readonly retry: RetryPolicy | undefined;
  /** Undefined: learned. */
  readonly reserveMs: number | undefined;
  readonly settleTimeoutMs: number;
  readonly expectedHandlerMs: number;
  readonly logger: Logger;
  /** Undefined: nothing is measured. */
  readonly metrics: Metrics | undefined;
  /** Undefined: nothing is traced. */
  readonly tracing: Tracing | undefined;
  /** Both, for handlers that measure and trace what they do. Undefined without either. */
  readonly telemetry: Telemetry | undefined;
  readonly random: () => number;
  /** Undefined: the store begins transactions. */
  readonly begin: BeginHandlerTransaction<Tx, Tx> | undefined;
  /** By topic, learned over all runs of this dispatcher, so that a warm function knows its handlers. */
  readonly durations: Map<string, DurationEstimate>;
  /** By topic, and by how the handling ended: the same objects in all runs, so that metrics know them again. */
  readonly outcomes: Map<string, Map<string, HandledCount>>;
  /** By store: how long its calls take. */
  readonly storeCalls: WeakMap<object, DurationEstimate>;
  readonly lateness: Lateness;
  readonly describe: (message: Message) => LogFields;
}

export interface Dispatcher<Message extends QueueMessage, Tx = unknown> {
  /** Claims, handles and settles until nothing is left or the budget is nearly used up. */
  run<Stored extends Message>(
    store: DispatchStore<Stored, Tx>,
    budget: Budget,
    options?: RunOptions,
  ): Promise<DispatchResult>;
}

/**
 * Creates what a timer-triggered function runs.
 *
 * @example
 * const dispatcher = createDispatcher({ store: inbox, handlers: { "invoice.paid": (message) => book(message.data) } });
 * await dispatcher.run(inbox, timeBudget(context.getRemainingTimeInMillis()));
 */
export function createDispatcher<Message extends QueueMessage, StoreTx, Tx>(
  options: OfStore<Message, StoreTx> & InTransactions<StoreTx, Tx> & DispatcherOptions<Message, Tx>,
): Dispatcher<Message, StoreTx>;
export function createDispatcher<Message extends QueueMessage, Tx = unknown>(
  options: OfStore<Message, Tx> & DispatcherOptions<Message, Tx> & { readonly transaction?: undefined },
): Dispatcher<Message, Tx>;
export function createDispatcher<Message extends QueueMessage, Tx>(options: object): Dispatcher<Message, Tx> {
  const config = dispatcherConfig(options as CheckedOptions<Message, Tx>);
  return {
    // a handler of any message also handles a more specific one
    run: (store, budget, runOptions) =>
      new DispatchRun(store as unknown as DispatchStore<Message, Tx>, budget, config, runOptions).run(),
  };
}

/** The options, checked and with their defaults. */
export function dispatcherConfig<Message extends QueueMessage, Tx>(
  options: CheckedOptions<Message, Tx>,
): DispatcherConfig<Message, Tx> {
  checkOptions(options);
  const retry = options.retry === undefined ? undefined : retryPolicy(options.retry);
  const metrics = options.metrics === undefined ? undefined : guardedMetrics(options.metrics);
  const { tracing } = options;
  const handlers = resolveHandlers(options.handlers, retry);
  const config: DispatcherConfig<Message, Tx> = {
    handlers,
    planOf: topicPlans(handlers, options),
    middleware: options.use ?? [],
    concurrency: options.concurrency ?? 10,
    timeoutMs: options.timeoutMs,
    batchSize: options.batchSize ?? 50,
    leaseMs: options.leaseMs ?? 30_000,
    retry,
    reserveMs: options.reserveMs,
    settleTimeoutMs: options.settleTimeoutMs ?? 10_000,
    expectedHandlerMs: options.expectedHandlerMs ?? 100,
    logger: loggerOf(options.logger),
    metrics,
    tracing,
    telemetry: (metrics ?? tracing) && { metrics, tracing },
    random: options.random ?? Math.random,
    begin: options.transaction,
    durations: new Map(),
    outcomes: new Map(),
    storeCalls: new WeakMap(),
    lateness: lateness(),
    describe: describeKey,
  };
  requireBatchSize(config.batchSize);
  requireDuration(config.leaseMs, "leaseMs");
  if (config.reserveMs !== undefined) requireDuration(config.reserveMs, "reserveMs");
  if (config.timeoutMs !== undefined) requireDuration(config.timeoutMs, "timeoutMs");
  requireDuration(config.settleTimeoutMs, "settleTimeoutMs");
  requireDuration(config.expectedHandlerMs, "expectedHandlerMs");
  if (!Number.isInteger(config.concurrency) || config.concurrency < 1) {
    throw new ArgumentRangeError("concurrency must be a whole number, 1 or more.");
  }
  return config;
}

/** An inbox message's source and id, or an outbox message's id. */
function describeKey(message: QueueMessage): LogFields {
  const { source, messageId, id } = message as { source?: string; messageId?: string; id?: string };
  return source === undefined ? { id, messageId } : { source, messageId };
}

export interface DispatcherOptions<Message extends QueueMessage, Tx = unknown> {
  /** By topic, case-sensitive. Written behind `store` and `transaction`, its messages and `tx` have their types. */
  readonly handlers: Handlers<Message, Tx>;
  /** Topics that are acknowledged without a handler: `["customer.*"]`. A handler of the topic itself goes before. */
  readonly ignore?: readonly TopicPattern[];
  /** What becomes of a message without a handler: `"retry"` by default, because the next deployment may bring one. */
  readonly onUnhandled?: OnUnhandled;
  /** Runs around every handler; the first is the outermost. */
  readonly use?: readonly HandlerMiddleware<Message, Tx>[];
  /** Handlers that may run at once: 10 by default. */
  readonly concurrency?: number;
  /**
   * The longest that a handler may take, for topics without a `timeoutMs` of their own. By default a function's budget
   * limits handlers, and a worker gives them 5 minutes.
   */
  readonly timeoutMs?: number;
  /** Messages in a claim: 50 by default. */
  readonly batchSize?: number;
  /** 30 s by default. Leases of handlers that run longer are renewed. */
  readonly leaseMs?: number;
  /** Attempts and back-off of topics without their own; the store's policy by default. */
  readonly retry?: Partial<RetryPolicy>;
  /**
   * Time kept free at the end, for handlers to stop and for the last settlements. By default it is learned from how long
   * database calls take: 0.5 s at first, then between 0.15 and 2 s.
   */
  readonly reserveMs?: number;
  /** The longest that one settlement may take before it is tried again on another connection: 10 s by default. */
  readonly settleTimeoutMs?: number;
  /** How long a handler is expected to take until its topic has been measured: 100 ms by default. */
  readonly expectedHandlerMs?: number;
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  readonly tracing?: Tracing;
  /** For tests: instead of Math.random, in the back-off's jitter. */
  readonly random?: () => number;
}

/** Types the handlers by the queue they are for. */
export interface OfStore<Message extends QueueMessage, Tx> {
  /** An inbox or an outbox that the dispatcher runs on: it types messages and `tx`. `run` takes it, or another of its kind. */
  readonly store?: DispatchStore<Message, Tx>;
}

/** `Tx` is the transaction of the user's library, `StoreTx` the store's own. */
export interface InTransactions<StoreTx, Tx> {
  /**
   * Begins the transactions of handlers with `transactional: true` with your own library, on the store's database. Handlers
   * get its transaction as `tx`: `(work) => knex.transaction((trx) => work(fromKnex(trx), trx))`.
   */
  readonly transaction: BeginHandlerTransaction<StoreTx, Tx>;
}

type CheckedOptions<Message extends QueueMessage, Tx> = DispatcherOptions<Message, Tx> &
  OfStore<Message, Tx> &
  Partial<InTransactions<Tx, Tx>>;

const knownOptions = [
  "handlers",
  "ignore",
  "onUnhandled",
  "use",
  "concurrency",
  "timeoutMs",
  "batchSize",
  "leaseMs",
  "retry",
  "reserveMs",
  "settleTimeoutMs",
  "expectedHandlerMs",
  "logger",
  "metrics",
  "tracing",
  "random",
  "store",
  "transaction",
];

/** Refuses unknown options. A store that is given and undefined, or a transaction instead of a function that begins them, is a mistake. */
function checkOptions(options: { readonly store?: unknown; readonly transaction?: unknown }): void {
  refuseUnknown(options, knownOptions, "createDispatcher");
  const { store, transaction } = options;
  if ("store" in options && typeof (store as { claim?: unknown } | undefined)?.claim !== "function")
    throw new InvalidArgumentError(
      "createDispatcher: store must be an inbox or an outbox. Leave it out if the dispatcher serves several.",
    );
  if (transaction !== undefined && typeof transaction !== "function")
    throw new InvalidArgumentError(
      "createDispatcher: transaction must be a function (work) => promise that begins a transaction and calls work(tx, own).",
    );
}
