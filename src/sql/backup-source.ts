import type { ReceivingDatabase } from "./dialect.js";
import { sqliteFileOf } from "./driver.js";

/** A database as far as a back-up needs to know it. */
export type BackupSource = Pick<ReceivingDatabase, "id" | "dialect">;

/** A server has its own means, which also cover its log and its users. */
const serverBackups = {
  postgres: "PostgreSQL: use pg_dump, or the server's base back-ups and WAL archive",
  sqlserver: "SQL Server: use BACKUP DATABASE, or the service's point-in-time restore",
} as const;

/** Why `createBackup` does not take this database; undefined when it does. */
export function whyNotBackedUp(database: BackupSource): string | undefined {
  const { id, dialect } = database;
  if (dialect.name !== "sqlite") {
    return `Only SQLite files are backed up here. ${id} is on ${serverBackups[dialect.name]}.`;
  }
  return sqliteFileOf(database) === undefined ? `${id} has no file that could be backed up.` : undefined;
}
