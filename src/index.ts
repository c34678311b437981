export * from "./errors.js";
export type {
  Inbox,
  InboxCallOptions,
  InboxOptions,
  IncomingMessage,
  ReceiveOutcome,
} from "./inbox/inbox.js";
export { createInbox } from "./inbox/inbox.js";
export type { EnqueueOptions, Outbox, OutboxOptions, OutgoingMessage } from "./outbox/outbox.js";
export { createOutbox } from "./outbox/outbox.js";
export type { Budget } from "./queue/budget.js";
export { timeBudget } from "./queue/budget.js";
export type { DispatchResult } from "./queue/dispatch-run.js";
export type { Dispatcher, DispatcherOptions } from "./queue/dispatcher.js";
export { createDispatcher } from "./queue/dispatcher.js";
export type { HandlerMiddleware } from "./queue/handle-message.js";
export type {
  HandlerContext,
  HandlerDefinition,
  HandlerFunction,
  Handlers,
  TopicOptions,
} from "./queue/handlers.js";
export { typedHandler } from "./queue/handlers.js";
export { LeaseLostError } from "./queue/lease-lost-error.js";
export type { LogFields, Logger } from "./queue/logger.js";
export type { MaintenanceResult } from "./queue/maintenance.js";
export { purgeWithin, reapWithin } from "./queue/maintenance.js";
export type {
  InboxKey,
  InboxMessage,
  InboxState,
  OutboxKey,
  OutboxMessage,
  OutboxState,
  QueueMessage,
} from "./queue/message.js";
export type { MetricAttributes, Metrics } from "./queue/metrics.js";
export type { OwnerToken } from "./queue/owner-token.js";
export { newOwnerToken, ownerToken } from "./queue/owner-token.js";
export type { RetryPolicy } from "./queue/retry-policy.js";
export { backoffMs, defaultRetryPolicy } from "./queue/retry-policy.js";
export { PermanentFailure, permanentFailure, RetryAfter, retryAfter } from "./queue/settlement.js";
export type { StandardSchema } from "./queue/standard-schema.js";
export type * from "./queue/work-store.js";
export type { WakeUpSource, Worker, WorkerOptions } from "./queue/worker.js";
export { createWorker } from "./queue/worker.js";
export type { Database, Dialect } from "./sql/dialect.js";
export type { SqlDriver, SqlExecutor, SqlParams, SqlRow, SqlStatement, SqlValue } from "./sql/driver.js";
export { statement } from "./sql/driver.js";
export type { MigrateOptions, MigrateResult } from "./sql/migrate.js";
export { migrate, renderSchema, schemaBatches } from "./sql/migrate.js";
