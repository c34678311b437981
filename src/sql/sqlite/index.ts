import { InvalidArgumentError } from "../../errors.js";
import type { Database } from "../dialect.js";
import { asTransaction, type SqlExecutor } from "../driver.js";
import {
  type RunStatement,
  requireOpen,
  type SqliteTransactionConnection,
  statementsOn,
} from "./connection.js";
import { sqliteDialect } from "./dialect.js";
import { connectSqlite, type SqliteOptions } from "./open.js";

export {
  type Backup,
  type BackupOptions,
  type BackupReport,
  createBackup,
  type MadeBackup,
} from "./backup/create-backup.js";
export { type RestoreOptions, type RestoreResult, restoreBackup } from "./backup/restore-backup.js";
export type { SqliteTransactionConnection } from "./connection.js";
export type { SqliteOptions } from "./open.js";

/**
 * A SQLite database, opened at first use.
 *
 * @example
 * const db = openSqlite({ file: "app.db" });
 */
export function openSqlite(options: SqliteOptions): Database<"sqlite"> {
  const opened = connectSqlite(options);
  return {
    ...opened,
    dialect: sqliteDialect,
    // begin immediate is the lock: one writer at a time among all processes on the file
    exclusively: (_schema, work) => opened.driver.transaction(work),
  };
}

/** One for each connection, so that its prepared texts are kept from call to call. */
const runners = new WeakMap<object, RunStatement>();

/**
 * The transaction that is open on a connection of the caller's.
 *
 * @example
 * const connection = new DatabaseSync("app.db");
 * connection.exec("begin");
 * await outbox.enqueue({ topic: "order.created", payload }, { tx: fromSqlite(connection) });
 * connection.exec("commit");
 */
export function fromSqlite(connection: SqliteTransactionConnection): SqlExecutor<"sqlite"> {
  if (typeof connection?.prepare !== "function") {
    throw new InvalidArgumentError("fromSqlite takes an open node:sqlite or better-sqlite3 database.");
  }
  const run = runners.get(connection) ?? statementsOn(connection);
  runners.set(connection, run);
  return asTransaction({
    native: connection,
    async query(statement, params) {
      requireOpen(connection);
      return run(statement, params);
    },
  });
}
