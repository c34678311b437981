import type { AdminOptions } from "../../../src/admin/create-admin.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { startAdmin } from "./start-admin.js";

/** Two queues on SQLite in memory. */
export async function sqliteStores() {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  return { db, inbox: createInbox(db), outbox: createOutbox(db) };
}

/** The API on SQLite in memory. */
export async function sqliteAdmin(options: Partial<AdminOptions> = {}) {
  const { db, inbox, outbox } = await sqliteStores();
  const admin = await startAdmin({ stores: { inbox, outbox }, ...options });
  return {
    ...admin,
    db,
    inbox,
    outbox,
    async close() {
      await admin.close();
      await db.close();
    },
  };
}
