import type { Database } from "../sql/dialect.js";
import type { DatabaseOpeners } from "./database-url.js";

/** Packaging replaces this file by one that opens only the databases of the bundle. */
export const databaseOpeners: DatabaseOpeners<Database> = {
  sqlserver: async () => (await import("../sql/sqlserver/index.js")).openSqlServer,
  postgres: async () => (await import("../sql/postgres/index.js")).openPostgres,
  sqlite: async () => (await import("../sql/sqlite/index.js")).openSqlite,
};
