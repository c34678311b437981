export type { Cleanup, CleanupOptions } from "./cleanup.js";
export { startCleanup } from "./cleanup.js";
export type { ComposedHandler, CustomMiddleware, MessageHandler, Middleware } from "./compose.js";
export { compose } from "./compose.js";
export type { BatchEntry, BatchOptions, Consume, ConsumeOptions, TriggerMessage } from "./consume.js";
export { consumeBatch, createConsume } from "./consume.js";
export type { HttpHandler, IdempotentHttpOptions } from "./idempotent-http.js";
export { idempotentHttp } from "./idempotent-http.js";
export type {
  HandlerOutput,
  InboxMiddleware,
  InboxMiddlewareOptions,
  OutboxMiddleware,
  OutboxMiddlewareOptions,
} from "./inbox-outbox.js";
export { inbox, outbox } from "./inbox-outbox.js";
export type {
  BeginTransaction,
  TransactionMiddleware,
  TransactionOptions,
} from "./transaction.js";
export { currentNativeTransaction, currentTransaction, publish, transaction } from "./transaction.js";
