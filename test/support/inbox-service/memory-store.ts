import { createSqlInboxStore, type SqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

/** An inbox store on a SQLite database in memory. Its `close` closes the database. */
export async function memoryStore(): Promise<SqlInboxStore> {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  return { ...createSqlInboxStore(db), close: () => db.close() };
}
