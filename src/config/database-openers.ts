import type { Database } from "../sql/dialect.js";
import type { DatabaseOpeners } from "./database-url.js";

/** A bundle is built with another file in this one's place, which knows one of them. */
export const databaseOpeners: DatabaseOpeners<Database> = {
  sqlserver: async () => (await import("../sql/sqlserver/index.js")).openSqlServer,
  postgres: async () => (await import("../sql/postgres/index.js")).openPostgres,
  sqlite: async () => (await import("../sql/sqlite/index.js")).openSqlite,
};
