export { type App, type CreateAppOptions, createApp } from "./app/app.js";
export type { AppFetch, AppListener, FetchHost } from "./app/app-http.js";
export { type AppDefinition, type AppOptions, type AppParts, defineApp } from "./app/definition.js";
export type { DispatchReport } from "./app/dispatch-job.js";
export type { CronReport } from "./app/dispatch-route.js";
export type { MaintenanceReport } from "./app/maintenance-jobs.js";
export type { StartOptions } from "./app/resident.js";
export type { AppSource } from "./app/sources.js";
export type { Budget } from "./base/async.js";
export { timeBudget } from "./base/async.js";
export type { LogFields, Logger, LoggerOption } from "./base/logger.js";
export { jsonLogger } from "./base/logger.js";
export type { MetricAttributes, Metrics, Telemetry, TraceSpan, Tracing } from "./base/telemetry.js";
export { type OpenDatabaseOptions, openDatabase } from "./config/database-url.js";
export { env, type SecretReference, type SecretResolver } from "./config/secret-reference.js";
export type { DispatchResult } from "./dispatch/dispatch-run.js";
export type { Dispatcher, DispatcherOptions } from "./dispatch/dispatcher.js";
export { createDispatcher } from "./dispatch/dispatcher.js";
export type { HandlerMiddleware } from "./dispatch/handle-message.js";
export type {
  BeginHandlerTransaction,
  HandlerContext,
  HandlerDefinition,
  HandlerEntry,
  HandlerFunction,
  HandlerResult,
  Handlers,
  ReturnedMessage,
  TransactionalContext,
} from "./dispatch/handlers.js";
export { PermanentFailure, permanentFailure, RetryAfter, retryAfter } from "./dispatch/settlement.js";
export type { WakeUpSource, Worker, WorkerSettings } from "./dispatch/worker.js";
export { createWorker } from "./dispatch/worker.js";
export {
  ArgumentRangeError,
  DriverMissingError,
  InvalidArgumentError,
  InvalidOperationError,
  PayloadNotJsonError,
  PermissionDeniedError,
  RowLockedError,
  SchemaMissingError,
} from "./errors.js";
export type { Inbox, InboxOptions, IncomingMessage, ReceiveOutcome } from "./inbox/inbox.js";
export { createInbox } from "./inbox/inbox.js";
export type { Enqueued, EnqueueOptions } from "./outbox/enqueue.js";
export type { StreamedMessage } from "./outbox/messages.js";
export type { Outbox, OutboxOptions } from "./outbox/outbox.js";
export { createOutbox } from "./outbox/outbox.js";
export { attributesOf } from "./queue/attributes.js";
export type { OwnerToken } from "./queue/leases.js";
export { LeaseLostError, newOwnerToken } from "./queue/leases.js";
export type { MaintenanceResult } from "./queue/maintenance.js";
export { purgeWithin, reapWithin } from "./queue/maintenance.js";
export type {
  InboxKey,
  InboxMessage,
  InboxState,
  OutboxKey,
  OutboxMessage,
  OutboxState,
  OutgoingMessage,
  QueueMessage,
} from "./queue/message.js";
export type { FailedAttempt } from "./queue/operators.js";
export type { RetryPolicy } from "./queue/retry-policy.js";
export type { StandardSchema } from "./queue/standard-schema.js";
export type { TopicSchemas } from "./queue/topics.js";
export type {
  DispatchStore,
  Page,
  PurgeResult,
  QueueStats,
  ReapResult,
  Settlement,
} from "./queue/work-store.js";
export type { Database } from "./sql/dialect.js";
export type { AdaptedTransaction, SqlExecutor, SqlRow, SqlStatement } from "./sql/driver.js";
export { asTransaction, statement } from "./sql/driver.js";
export type { MigrateOptions, MigrateResult } from "./sql/migrate.js";
export { migrate } from "./sql/migrate.js";
export type { AnyDatabase, DatabaseKind } from "./sql/native.js";
