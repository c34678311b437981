export {
  createHttpInboxStore,
  type HttpInboxStoreOptions,
} from "./client/http-inbox-store.js";
export { InboxServiceError, type InboxServiceErrorDetails } from "./client/inbox-service-call.js";
export { type HeldLease, type LeasedOutcome, type WithLeaseOptions, withLease } from "./client/with-lease.js";
export type { ConsumedMessage, ConsumerName } from "./consume-once.js";
export {
  type ConsumeContext,
  type ConsumeHandler,
  type ConsumeOnceOptions,
  type ConsumeOutcome,
  consumeOnce,
} from "./consume-once.js";
export type { InboxService, InboxServiceOptions, InboxServiceSettings } from "./http/inbox-service.js";
export { createInboxService, inboxServiceDefaults } from "./http/inbox-service.js";
export {
  defaultLeaseMs,
  defaultRetentionMs,
  type FinishResult,
  InboxKeyBusyError,
  type InboxStore,
  type KeyReport,
  keyProblem,
  type LeaseLost,
  type LeasingInboxStore,
  longestKey,
  longestOwner,
  longestRetentionMs,
  ownerProblem,
  type ReleaseResult,
  type RenewResult,
  shortestRetentionMs,
  type TryBeginOptions,
  type TryBeginResult,
} from "./inbox-store.js";
export type { MongoClient, MongoCollection } from "./mongo-inbox-store.js";
export { createMongoInboxStore, type MongoInboxStoreOptions } from "./mongo-inbox-store.js";
export { type InboxStoreSettings, openInboxStore, type SqlInboxStoreSettings } from "./open-inbox-store.js";
export type { RedisClient } from "./redis-inbox-store.js";
export { createRedisInboxStore, type RedisInboxStoreOptions } from "./redis-inbox-store.js";
export type { PurgeKeysOptions } from "./sql-inbox-store.js";
export { createSqlInboxStore, type SqlInboxStore, type SqlInboxStoreOptions } from "./sql-inbox-store.js";
