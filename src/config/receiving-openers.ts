import type { ReceivingDatabase } from "../sql/dialect.js";
import type { DatabaseOpeners } from "./database-url.js";

/** For a function that only receives. Packaging replaces this file by one that opens only the databases of the bundle. */
export const receivingOpeners: DatabaseOpeners<ReceivingDatabase> = {
  sqlserver: async () => (await import("../sql/sqlserver/open.js")).connectSqlServer,
  postgres: async () => (await import("../sql/postgres/open.js")).connectPostgres,
  sqlite: async () => (await import("../sql/sqlite/open.js")).connectSqlite,
};
