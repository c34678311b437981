import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadSqlite, type SqliteHandle } from "../../src/sql/sqlite/client.js";
import { fromSqlite, openSqlite } from "../../src/sql/sqlite/index.js";
import type { CallerTransaction, ContractHarness, TestDatabase } from "../contract/harness.js";

/** SQLite in a file of its own, or in memory (where every opening shares the one connection). */
export function sqliteHarness(kind: "file" | "memory"): ContractHarness {
  return { name: `SQLite (${kind})`, open: () => (kind === "file" ? openFile() : openMemory()) };
}

const supports = { concurrentWriters: false, rowLocks: false, visibleLockWaits: false };

async function openFile(): Promise<TestDatabase> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-sqlite-"));
  const file = join(folder, "test.db");
  const opened = [openSqlite({ file })];
  const DatabaseSync = await loadSqlite();
  return {
    db: opened[0]!,
    schema: undefined,
    supports: { ...supports, snapshotReads: true, severalConnections: true },
    reopen() {
      const db = openSqlite({ file });
      opened.push(db);
      return db;
    },
    async begin(when): Promise<CallerTransaction> {
      const connection = new DatabaseSync(file);
      connection.exec("pragma busy_timeout = 5000");
      if (when !== "never") connection.exec("begin immediate");
      return callerTransaction(connection, true);
    },
    raw: (sql) => opened[0]!.driver.query({ name: "raw", text: sql }, {}),
    async close() {
      await Promise.all(opened.map((db) => db.close()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function openMemory(): Promise<TestDatabase> {
  const db = openSqlite({ file: ":memory:" });
  return {
    db,
    schema: undefined,
    supports: { ...supports, snapshotReads: false, severalConnections: false },
    reopen: () => db,
    // the one connection there is: the driver's own transaction stands for the caller's
    begin: () => driverTransaction(db),
    raw: (sql) => db.driver.query({ name: "raw", text: sql }, {}),
    close: () => db.close(),
  };
}

function callerTransaction(connection: SqliteHandle, closing: boolean): CallerTransaction {
  const end = async (how: "commit" | "rollback") => {
    try {
      connection.exec(how);
    } finally {
      if (closing) connection.close();
    }
  };
  return {
    tx: fromSqlite(connection),
    native: connection,
    run: async (sql) => connection.exec(sql),
    commit: () => end("commit"),
    rollback: () => end("rollback"),
  };
}

function driverTransaction(db: ReturnType<typeof openSqlite>): Promise<CallerTransaction> {
  return new Promise((started, failed) => {
    let finish: (how: "commit" | "rollback") => void = () => {};
    const ended = db.driver
      .transaction(async (tx) => {
        const how = await new Promise<"commit" | "rollback">((resolve) => {
          finish = resolve;
          started({
            tx,
            native: db.driver,
            run: async (sql) => {
              await tx.query({ name: "raw", text: sql }, {});
            },
            commit: () => conclude("commit"),
            rollback: () => conclude("rollback"),
          });
        });
        if (how === "rollback") throw new RolledBack();
      })
      .catch((error) => {
        if (!(error instanceof RolledBack)) throw error;
      });
    ended.catch(failed);
    const conclude = async (how: "commit" | "rollback") => {
      finish(how);
      await ended;
    };
  });
}

class RolledBack extends Error {}
