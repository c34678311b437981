export { type Cleanup, type CleanupOptions, startCleanup } from "./cleanup.js";
export {
  type ComposedHandler,
  type CustomMiddleware,
  compose,
  type MessageHandler,
  type Middleware,
} from "./compose.js";
export { type ConsumeOptions, type TriggerMessage, triggerMessage } from "./consume.js";
export { type HttpHandler, type IdempotentHttpOptions, idempotentHttp } from "./idempotent-http.js";
export {
  type InboxMiddleware,
  type InboxMiddlewareOptions,
  inbox,
  type OutboxMiddleware,
  type OutboxMiddlewareOptions,
  outbox,
} from "./inbox-outbox.js";
export {
  currentNativeTransaction,
  currentTransaction,
  publish,
  type TransactionMiddleware,
  type TransactionOptions,
  transaction,
} from "./transaction.js";
