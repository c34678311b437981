export * from "./errors.js";
export { createInbox } from "./inbox/inbox.js";
export type { Inbox, InboxOptions, IncomingMessage, ReceiveOutcome } from "./inbox/inbox.js";
export { createOutbox } from "./outbox/outbox.js";
export type { EnqueueOptions, Outbox, OutboxOptions, OutgoingMessage } from "./outbox/outbox.js";
export type { LogFields, Logger } from "./queue/logger.js";
export type {
  InboxKey,
  InboxMessage,
  InboxState,
  OutboxKey,
  OutboxMessage,
  OutboxState,
  QueueMessage,
} from "./queue/message.js";
export { newOwnerToken, ownerToken } from "./queue/owner-token.js";
export type { OwnerToken } from "./queue/owner-token.js";
export { backoffMs, defaultRetryPolicy } from "./queue/retry-policy.js";
export type { RetryPolicy } from "./queue/retry-policy.js";
export type * from "./queue/work-store.js";
export type { Database, Dialect } from "./sql/dialect.js";
export type { SqlDriver, SqlExecutor, SqlParams, SqlRow, SqlStatement, SqlValue } from "./sql/driver.js";
export { migrate, renderSchema } from "./sql/migrate.js";
export type { MigrateOptions, MigrateResult } from "./sql/migrate.js";
