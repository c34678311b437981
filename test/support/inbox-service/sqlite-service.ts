import type { InboxServiceOptions } from "../../../src/inbox-store/http/inbox-service.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type StartedService, startService } from "./start-service.js";

/** The service on SQLite in memory. */
export async function sqliteService(
  options: Omit<InboxServiceOptions, "store"> = {},
): Promise<StartedService> {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const service = await startService({ ...options, store: createSqlInboxStore(db) });
  return {
    ...service,
    async close() {
      await service.close();
      await db.close();
    },
  };
}
