export type { InboxService } from "./http/create-inbox-service.js";
export { createInboxService } from "./http/create-inbox-service.js";
export type { InboxServiceOptions, InboxServiceSettings } from "./http/service-options.js";
export { inboxServiceDefaults } from "./http/service-options.js";
export * from "./inbox-store.js";
export {
  defaultRetentionMs,
  keyProblem,
  longestRetentionMs,
  ownerProblem,
  shortestRetentionMs,
} from "./key.js";
export type { PurgeKeysOptions } from "./purge-keys.js";
export { createSqlInboxStore, type SqlInboxStore, type SqlInboxStoreOptions } from "./sql-inbox-store.js";
