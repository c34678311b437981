import { omitUndefined } from "../base/defined.js";
import { longestRetentionMs, shortestRetentionMs } from "../inbox-store/inbox-store.js";
import { createSqlInboxStore, type SqlInboxStore } from "../inbox-store/sql-inbox-store.js";
import type { Database } from "../sql/dialect.js";
import { type AppContext, storeOptionsOf } from "./open-app.js";

/** The keys of an app's service, in the app's own database. */
export function serviceStore(context: AppContext, db: Database): SqlInboxStore {
  const { service, inbox, retentionMs = longestRetentionMs } = context.definition;
  const kept = Math.min(Math.max(retentionMs, shortestRetentionMs), longestRetentionMs);
  return createSqlInboxStore(db, {
    ...omitUndefined({ table: inbox?.table }),
    ...storeOptionsOf(context),
    retentionMs: service?.retentionMs ?? kept,
  });
}
