import type { LoggerOption } from "../base/logger.js";
import type { Metrics } from "../base/metrics.js";
import type { Tracing } from "../base/tracing.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { RetryPolicy } from "../queue/retry-policy.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { BeginHandlerTransaction } from "./begin-transaction.js";
import type { HandlerMiddleware } from "./handle-message.js";
import type { Handlers } from "./handlers.js";
import type { TopicPattern } from "./topic-patterns.js";
import type { Otherwise } from "./topic-plans.js";

export interface DispatcherOptions<Message extends QueueMessage, Tx = unknown> {
  /** By topic, case-sensitive. Written behind `store` and `transaction`, its messages and `tx` have their types. */
  readonly handlers: Handlers<Message, Tx>;
  /** Topics that are acknowledged without a handler: `["customer.*"]`. A handler of the topic itself goes before. */
  readonly ignore?: readonly TopicPattern[];
  /** What becomes of a message without a handler: `"retry"` by default, because the next deployment may bring one. */
  readonly otherwise?: Otherwise;
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

export type CheckedOptions<Message extends QueueMessage, Tx> = DispatcherOptions<Message, Tx> &
  OfStore<Message, Tx> &
  Partial<InTransactions<Tx, Tx>>;

const known = [
  "handlers",
  "ignore",
  "otherwise",
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
export function checkOptions(options: { readonly store?: unknown; readonly transaction?: unknown }): void {
  refuseUnknown(options, known, "createDispatcher");
  const { store, transaction } = options;
  if ("store" in options && typeof (store as { claim?: unknown } | undefined)?.claim !== "function")
    throw new InvalidArgumentError(
      "createDispatcher: store must be an inbox or an outbox. Leave it out otherwise.",
    );
  if (transaction !== undefined && typeof transaction !== "function")
    throw new InvalidArgumentError(
      "createDispatcher: transaction must be a function (work) => promise that begins a transaction and calls work(tx, own).",
    );
}
