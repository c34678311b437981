import type { Budget } from "../base/budget.js";
import { type LogFields, type Logger, loggerOf } from "../base/logger.js";
import { guardedMetrics, type Metrics } from "../base/metrics.js";
import type { Telemetry, Tracing } from "../base/tracing.js";
import { ArgumentRangeError } from "../errors.js";
import { requireBatchSize, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { type RetryPolicy, retryPolicy } from "../queue/retry-policy.js";
import type { DispatchStore } from "../queue/work-store.js";
import type { BeginHandlerTransaction } from "./begin-transaction.js";
import { type DispatchResult, dispatchRun, type RunOptions } from "./dispatch-run.js";
import {
  type CheckedOptions,
  checkOptions,
  type DispatcherOptions,
  type InTransactions,
  type OfStore,
} from "./dispatcher-options.js";
import type { DurationEstimate } from "./duration-estimate.js";
import type { HandlerMiddleware } from "./handle-message.js";
import type { HandledCount } from "./handled-counts.js";
import { type ResolvedHandler, resolveHandlers } from "./handlers.js";
import { type Lateness, lateness } from "./lateness.js";
import type { TopicPattern } from "./topic-patterns.js";
import { type TopicPlan, topicPlans } from "./topic-plans.js";

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
      dispatchRun(store as unknown as DispatchStore<Message, Tx>, budget, config, runOptions),
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
