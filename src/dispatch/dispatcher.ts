import type { Budget } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { type Logger, type LoggerOption, loggerOf } from "../base/logger.js";
import { guardedMetrics, type Metrics, type Telemetry, type Tracing } from "../base/telemetry.js";
import { InvalidArgumentError } from "../errors.js";
import { optionalCount, refuseUnknown, requireBatchSize, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { type RetryPolicy, retryPolicy } from "../queue/retry-policy.js";
import type { TopicSchemas } from "../queue/topics.js";
import type { DispatchStore } from "../queue/work-store.js";
import { type DispatchResult, DispatchRun, type RunOptions } from "./dispatch-run.js";
import type { HandlerMiddleware } from "./handle-message.js";
import {
  type AsWritten,
  type BeginHandlerTransaction,
  type NoOwnSchemas,
  type OnUnhandled,
  type ReturnedOf,
  type TopicPattern,
  type TopicPlans,
  type TypedHandlers,
  topicPlans,
} from "./handlers.js";
import { outboxOf, type ReturnOutbox } from "./returned-messages.js";
import { type DurationEstimate, type Lateness, lateness } from "./timing.js";

/** Handles the messages of a store. */
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
 * const dispatcher = createDispatcher({ store: inbox, handlers: { "stripe.invoice.paid": (message) => book(message.data) } });
 * await dispatcher.run(inbox, timeBudget(context.getRemainingTimeInMillis()));
 */
export function createDispatcher<
  Message extends QueueMessage,
  StoreTx = unknown,
  Topics extends TopicSchemas = TopicSchemas,
  Own = NoOwnSchemas<Topics>,
  Tx = StoreTx,
  Sent extends TopicSchemas = TopicSchemas,
  Made = unknown,
>(options: DispatcherOptions<Message, StoreTx, Topics, Own, Tx, Sent, Made>): Dispatcher<Message, StoreTx> {
  const config = dispatcherConfig(options as unknown as AnyOptions);
  return {
    // From here on the type of messages and transactions does not matter: handlers get what the store returns.
    run: async (store, budget, runOptions) =>
      new DispatchRun(store as unknown as DispatchStore<QueueMessage>, budget, config, runOptions).run(),
  };
}

/**
 * Options of a dispatcher. The compiler infers its types: of the store's messages, transactions and topics, of the data of handlers' own
 * schemas, of the transactions that handlers get, of the topics that are sent, and of the handlers as they are written.
 */
export interface DispatcherOptions<
  Message extends QueueMessage,
  StoreTx = unknown,
  Topics extends TopicSchemas = TopicSchemas,
  Own = NoOwnSchemas<Topics>,
  Tx = StoreTx,
  Sent extends TopicSchemas = TopicSchemas,
  Made = unknown,
> {
  /** An inbox or an outbox that the dispatcher runs on: it types messages, their data and `tx`. `run` takes it, or another of its kind. */
  readonly store?: DispatchStore<Message, StoreTx, Topics>;
  /**
   * Begins the transactions of handlers with `transactional: true` with your own library, on the store's database. Handlers
   * get its transaction as `tx`: `(work) => knex.transaction((trx) => work(fromKnex(trx), trx))`.
   */
  readonly transaction?: BeginHandlerTransaction<StoreTx, Tx>;
  /** By topic, case-sensitive. Written behind `store` and `transaction`, its messages and `tx` have their types. */
  readonly handlers: TypedHandlers<Message, Tx, Topics, Own, ReturnedOf<Sent>, Made> & AsWritten<Made>;
  /** Topics that are acknowledged without a handler: `["customer.*"]`. A handler of the topic itself comes first. */
  readonly ignore?: readonly TopicPattern[];
  /**
   * What becomes of a message without a handler: `"retry"` by default, because the next deployment may bring one. An app has
   * `"bySource"` by default.
   */
  readonly onUnhandled?: OnUnhandled;
  /** For `onUnhandled: "bySource"`: the names of the webhook sources. An app has those of its definition and of `ONCEBOX_WEBHOOKS`. */
  readonly sources?: readonly string[];
  /**
   * Where messages that handlers return are stored: an outbox on the store's database. Without one, handlers may return none. Its
   * `topics` type and check them.
   */
  readonly outbox?: ReturnOutbox<Sent>;
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

type AnyOptions = DispatcherOptions<QueueMessage>;

/** The options, checked and with their defaults, and what is learned over all runs. */
export interface DispatcherConfig {
  readonly topics: TopicPlans;
  readonly middleware: readonly HandlerMiddleware<QueueMessage>[];
  /** Undefined: a run has its own, or handlers may return no messages. */
  readonly outbox: ReturnOutbox | undefined;
  /** The topics, or patterns, of handlers that have returned something else than messages. */
  readonly warnedOf: Set<TopicPattern>;
  readonly concurrency: number;
  readonly batchSize: number;
  readonly leaseMs: number;
  /** Undefined: learned. */
  readonly reserveMs: number | undefined;
  readonly settleTimeoutMs: number;
  readonly logger: Logger;
  readonly metrics: Metrics | undefined;
  readonly tracing: Tracing | undefined;
  /** Both, for handlers that measure and trace what they do. Undefined without either. */
  readonly telemetry: Telemetry | undefined;
  readonly random: () => number;
  /** Undefined: the store begins transactions. */
  readonly begin: BeginHandlerTransaction<unknown, unknown> | undefined;
  /** By store: how long its calls take. */
  readonly storeCalls: WeakMap<object, DurationEstimate>;
  readonly lateness: Lateness;
}

const defaults = {
  ignore: [],
  onUnhandled: "retry",
  use: [],
  concurrency: 10,
  batchSize: 50,
  leaseMs: 30_000,
  settleTimeoutMs: 10_000,
  expectedHandlerMs: 100,
  random: Math.random,
} as const;

/** The names of all options. */
export const dispatcherOptions: readonly string[] = [
  ...Object.keys(defaults),
  "handlers",
  "sources",
  "timeoutMs",
  "retry",
  "reserveMs",
  "logger",
  "metrics",
  "tracing",
  "store",
  "transaction",
  "outbox",
];

function dispatcherConfig(given: AnyOptions): DispatcherConfig {
  refuseUnknown(given, dispatcherOptions, "createDispatcher");
  const options = { ...defaults, ...omitUndefined(given) };
  const { concurrency, batchSize, leaseMs, settleTimeoutMs, expectedHandlerMs, tracing } = options;
  const { reserveMs, timeoutMs, transaction } = options;
  requireStoreAndTransaction(given);
  requireBatchSize(batchSize);
  optionalCount(concurrency, "concurrency", 1);
  const durations = { leaseMs, settleTimeoutMs, expectedHandlerMs, reserveMs, timeoutMs };
  for (const [name, ms] of Object.entries(omitUndefined(durations))) requireDuration(ms, name);
  const metrics = options.metrics && guardedMetrics(options.metrics);
  return {
    topics: topicPlans(options, options.retry && retryPolicy(options.retry)),
    middleware: options.use,
    outbox: options.outbox,
    warnedOf: new Set(),
    concurrency,
    batchSize,
    leaseMs,
    reserveMs,
    settleTimeoutMs,
    logger: loggerOf(options.logger),
    metrics,
    tracing,
    telemetry: (metrics ?? tracing) && { metrics, tracing },
    random: options.random,
    begin: transaction,
    storeCalls: new WeakMap(),
    lateness: lateness(),
  };
}

/** A store that is given and undefined, or a transaction instead of a function that begins them, is a mistake. */
function requireStoreAndTransaction(options: AnyOptions): void {
  const { store, transaction, outbox } = options;
  if (outbox !== undefined) outboxOf(store ?? outbox, outbox);
  if ("store" in options && typeof store?.claim !== "function")
    throw new InvalidArgumentError(
      "createDispatcher: store must be an inbox or an outbox. Leave it out if the dispatcher serves several.",
    );
  if (transaction !== undefined && typeof transaction !== "function")
    throw new InvalidArgumentError(
      "createDispatcher: transaction must be a function (work) => promise that begins a transaction and calls work(tx, own).",
    );
}
