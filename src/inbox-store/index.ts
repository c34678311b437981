export type { HttpInboxStoreOptions } from "./client/http-inbox-store.js";
export { InboxServiceError } from "./client/inbox-service-call.js";
export {
  type ConsumeContext,
  type ConsumedMessage,
  type ConsumeHandler,
  type ConsumeOnceOptions,
  type ConsumeOutcome,
  type ConsumerName,
  consumeOnce,
} from "./consume-once.js";
export {
  createInboxService,
  type InboxService,
  type InboxServiceOptions,
  type InboxServiceSettings,
} from "./http/inbox-service.js";
export {
  type FinishResult,
  InboxKeyBusyError,
  type InboxStore,
  type KeyReport,
  type LeaseLost,
  type LeasingInboxStore,
  type ReleaseResult,
  type RenewResult,
  type TryBeginOptions,
  type TryBeginResult,
} from "./inbox-store.js";
export type { MongoClient, MongoCollection, MongoInboxStoreOptions } from "./mongo-inbox-store.js";
export { type InboxStoreSettings, openInboxStore, type SqlInboxStoreSettings } from "./open-inbox-store.js";
export type { RedisClient, RedisInboxStoreOptions } from "./redis-inbox-store.js";
export {
  createSqlInboxStore,
  type PurgeKeysOptions,
  type SqlInboxStore,
  type SqlInboxStoreOptions,
} from "./sql-inbox-store.js";
export {
  type HeldLease,
  type LeasedOutcome,
  type WithLeaseOptions,
  WorkTimedOutError,
  withLease,
} from "./with-lease.js";
