export type { HttpInboxStoreOptions } from "./client/http-inbox-store.js";
export { InboxServiceError } from "./client/inbox-service-call.js";
export {
  type ConsumeContext,
  type ConsumedMessage,
  type ConsumeHandler,
  type ConsumeOnceOptions,
  type ConsumeOutcome,
  consumeOnce,
} from "./consume-once.js";
export { createInboxService, type InboxService, type InboxServiceOptions } from "./http/inbox-service.js";
export {
  type FinishResult,
  InboxKeyBusyError,
  type InboxStore,
  type KeyReport,
  type LeaseLost,
  type LeasingInboxStore,
  type ReleaseResult,
  type RenewResult,
  type TryBeginResult,
} from "./inbox-store.js";
export type { MongoInboxStoreOptions } from "./mongo-inbox-store.js";
export { type InboxStoreSettings, openInboxStore } from "./open-inbox-store.js";
export type { RedisInboxStoreOptions } from "./redis-inbox-store.js";
export { createSqlInboxStore, type SqlInboxStore, type SqlInboxStoreOptions } from "./sql-inbox-store.js";
export {
  type HeldLease,
  type LeasedOutcome,
  type WithLeaseOptions,
  WorkTimedOutError,
  withLease,
} from "./with-lease.js";
