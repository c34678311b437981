import { omitUndefined } from "../base/defined.js";
import { longestRetentionMs } from "../service/inbox-store.js";
import { createSqlInboxStore, type SqlInboxStore } from "../service/sql-inbox-store.js";
import type { Database } from "../sql/dialect.js";
import { type AppContext, storeOptionsOf } from "./open-app.js";

/** The keys of an app's service in the app's own inbox. */
export function serviceStore(context: AppContext, db: Database): SqlInboxStore {
  const { service, inbox, retentionMs = longestRetentionMs } = context.definition;
  return createSqlInboxStore(db, {
    ...omitUndefined({ table: inbox?.table }),
    ...storeOptionsOf(context),
    retentionMs: service?.retentionMs ?? Math.min(retentionMs, longestRetentionMs),
  });
}
