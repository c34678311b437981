export {
  createHttpInboxStore,
  type HttpInboxStoreOptions,
} from "./client/http-inbox-store.js";
export { InboxServiceError, type InboxServiceErrorDetails } from "./client/inbox-service-error.js";
export { type HeldLease, type LeasedOutcome, type WithLeaseOptions, withLease } from "./client/with-lease.js";
export {
  type ConsumeContext,
  type ConsumeHandler,
  type ConsumeOnceOptions,
  type ConsumeOutcome,
  consumeOnce,
} from "./consume-once.js";
export type { ConsumedMessage, ConsumerName } from "./consumer-key.js";
export type { InboxService } from "./http/create-inbox-service.js";
export { createInboxService } from "./http/create-inbox-service.js";
export type { InboxServiceOptions, InboxServiceSettings } from "./http/service-options.js";
export { inboxServiceDefaults } from "./http/service-options.js";
export { InboxKeyBusyError } from "./inbox-key-busy-error.js";
export * from "./inbox-store.js";
export {
  defaultRetentionMs,
  keyProblem,
  longestRetentionMs,
  ownerProblem,
  shortestRetentionMs,
} from "./key.js";
export type { MongoClient, MongoCollection } from "./mongo/client.js";
export { createMongoInboxStore, type MongoInboxStoreOptions } from "./mongo-inbox-store.js";
export { type InboxStoreSettings, openInboxStore, type SqlInboxStoreSettings } from "./open-inbox-store.js";
export type { PurgeKeysOptions } from "./purge-keys.js";
export type { RedisClient } from "./redis/client.js";
export { createRedisInboxStore, type RedisInboxStoreOptions } from "./redis-inbox-store.js";
export { createSqlInboxStore, type SqlInboxStore, type SqlInboxStoreOptions } from "./sql-inbox-store.js";
