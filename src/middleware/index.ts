export type { Cleanup, CleanupOptions } from "./cleanup.js";
export { startCleanup } from "./cleanup.js";
export type { ComposedHandler, CustomMiddleware, MessageHandler, Middleware } from "./compose.js";
export { compose } from "./compose.js";
export type { Consume, ConsumeOptions } from "./consume.js";
export { createConsume } from "./consume.js";
export type { BatchEntry, BatchOptions } from "./consume-batch.js";
export { consumeBatch } from "./consume-batch.js";
export { currentNativeTransaction, currentTransaction, publish } from "./current-transaction.js";
export type { IdempotentHttpOptions } from "./idempotent-http.js";
export { idempotentHttp } from "./idempotent-http.js";
export type { HttpHandler } from "./idempotent-requests.js";
export type { InboxMiddleware, InboxMiddlewareOptions } from "./inbox-middleware.js";
export { inbox } from "./inbox-middleware.js";
export type { OutboxMiddleware, OutboxMiddlewareOptions } from "./outbox-middleware.js";
export { outbox } from "./outbox-middleware.js";
export type { HandlerOutput } from "./outgoing.js";
export type {
  BeginTransaction,
  TransactionMiddleware,
  TransactionOptions,
} from "./transaction-middleware.js";
export { transaction } from "./transaction-middleware.js";
export type { TriggerMessage } from "./trigger-message.js";
