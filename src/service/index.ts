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
