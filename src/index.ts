export type { Budget } from "./base/budget.js";
export { timeBudget } from "./base/budget.js";
export type { LogFields, Logger, LoggerOption } from "./base/logger.js";
export type {
  MetricAttributes,
  Metrics,
  SpanEnd,
  SpanStart,
  Telemetry,
  TraceSpan,
  Tracing,
} from "./base/telemetry.js";
export type { DispatchResult } from "./dispatch/dispatch-run.js";
export type { Dispatcher, DispatcherOptions, InTransactions, OfStore } from "./dispatch/dispatcher.js";
export { createDispatcher } from "./dispatch/dispatcher.js";
export type { HandlerMiddleware } from "./dispatch/handle-message.js";
export type {
  BeginHandlerTransaction,
  BeginOptions,
  HandlerContext,
  HandlerDefinition,
  HandlerEntry,
  HandlerFunction,
  Handlers,
  OnUnhandled,
  PlainHandlerDefinition,
  RanInTransaction,
  TopicOptions,
  TopicPattern,
  TransactionalContext,
  TransactionalHandlerDefinition,
} from "./dispatch/handlers.js";
export { typedHandler } from "./dispatch/handlers.js";
export { PermanentFailure, permanentFailure, RetryAfter, retryAfter } from "./dispatch/settlement.js";
export type { WakeUpSource, Worker, WorkerOptions } from "./dispatch/worker.js";
export { createWorker } from "./dispatch/worker.js";
export type { OnceboxErrorInfo } from "./errors.js";
export {
  ArgumentRangeError,
  DriverMissingError,
  InvalidArgumentError,
  InvalidOperationError,
  PayloadNotJsonError,
  PermissionDeniedError,
  SchemaMissingError,
} from "./errors.js";
export type {
  Inbox,
  InboxCallOptions,
  InboxOptions,
  IncomingMessage,
  ReceiveOutcome,
} from "./inbox/inbox.js";
export { createInbox } from "./inbox/inbox.js";
export type { TopicSchemas, Topics, TypedHandlers, TypedMessage } from "./outbox/define-topics.js";
export { defineTopics } from "./outbox/define-topics.js";
export type { Enqueued, EnqueueOptions, OnceMessage, OutgoingMessage } from "./outbox/enqueue.js";
export type { Outbox, OutboxOptions } from "./outbox/outbox.js";
export { createOutbox } from "./outbox/outbox.js";
export { attributesOf } from "./queue/attributes.js";
export type { OwnerToken } from "./queue/leases.js";
export { LeaseLostError, newOwnerToken, ownerToken } from "./queue/leases.js";
export type { MaintenanceResult } from "./queue/maintenance.js";
export { purgeWithin, reapWithin } from "./queue/maintenance.js";
export type {
  ContentHash,
  InboxKey,
  InboxMessage,
  InboxState,
  OutboxKey,
  OutboxMessage,
  OutboxState,
  QueueMessage,
} from "./queue/message.js";
export type { FailedAttempt } from "./queue/operators.js";
export type { RetryPolicy } from "./queue/retry-policy.js";
export { backoffMs, defaultRetryPolicy } from "./queue/retry-policy.js";
export type { StandardSchema } from "./queue/standard-schema.js";
export type {
  Abandonment,
  AbandonOptions,
  AckOptions,
  CallOptions,
  ClaimOptions,
  DeadLetterListener,
  DispatchStore,
  GetOptions,
  ListFilter,
  MessageFilter,
  Page,
  PurgeDeadOptions,
  PurgeOperationsOptions,
  PurgeOptions,
  PurgeResult,
  QueueStats,
  ReapOptions,
  ReapResult,
  ReplayOptions,
  Settlement,
  WorkStore,
} from "./queue/work-store.js";
export type { Database, Dialect } from "./sql/dialect.js";
export type {
  SqlDriver,
  SqlExecutor,
  SqlParams,
  SqlQueryable,
  SqlRow,
  SqlStatement,
  SqlValue,
} from "./sql/driver.js";
export { asTransaction, statement } from "./sql/driver.js";
export type { MigrateOptions, MigrateResult } from "./sql/migrate.js";
export { migrate, renderSchema, schemaBatches } from "./sql/migrate.js";
