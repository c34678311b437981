import type { Database } from "../../../src/sql/dialect.js";
import type { SqlDriver } from "../../../src/sql/driver.js";

/** A database whose driver records the calls, and fails where a test wants it to. */
export interface WatchedDatabase extends Database {
  /** The statements' names, and `transaction` and `exclusively`, in the order of the calls. */
  readonly calls: string[];
}

/** What a call does: run, fail without running, or run and lose the server's answer. */
export type Fate = "run" | { readonly fail: unknown } | { readonly loseAnswer: unknown };

/** Each query takes the next of the fates. When they are used up, queries run. */
export function watched(db: Database, fates: readonly Fate[] = []): WatchedDatabase {
  const calls: string[] = [];
  const rest = [...fates];
  const driver: SqlDriver = {
    async query(statement, params, options) {
      calls.push(statement.name);
      const fate = rest.shift() ?? "run";
      if (fate !== "run" && "fail" in fate) throw fate.fail;
      const rows = await db.driver.query(statement, params, options);
      if (fate !== "run") throw fate.loseAnswer;
      return rows;
    },
    transaction(work, options) {
      calls.push("transaction");
      return db.driver.transaction(work, options);
    },
    close: () => db.driver.close(),
  };
  return {
    ...db,
    driver,
    calls,
    exclusively(schema, work) {
      calls.push("exclusively");
      return db.exclusively(schema, work);
    },
  };
}

/** A database that rolls its first transaction back before the commit, as the victim of a deadlock. */
export function withVictim(db: Database): Database {
  let isVictim = true;
  return {
    ...db,
    driver: {
      ...db.driver,
      transaction: (work, options) =>
        db.driver.transaction(async (tx) => {
          const result = await work(tx);
          if (!isVictim) return result;
          isVictim = false;
          throw deadlock(db);
        }, options),
    },
  };
}

const faults = [
  Object.assign(new Error("deadlock detected"), { code: "40P01" }),
  Object.assign(new Error("Transaction was deadlocked and has been chosen as the victim"), {
    name: "RequestError",
    code: "EREQUEST",
    number: 1205,
  }),
  Object.assign(new Error("database is locked"), { code: "ERR_SQLITE_ERROR", errcode: 5 }),
  Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" }),
  Object.assign(new Error("Connection lost - read ECONNRESET"), { name: "ConnectionError", code: "ESOCKET" }),
];

/** An error after which this database has undone the work. */
export function deadlock(db: Database): Error {
  const fault = faults.find((error) => db.dialect.classify(error) === "rolledBack");
  if (fault === undefined) throw new Error(`No known fault is a rolled back one for ${db.dialect.name}.`);
  return fault;
}

/** An error after which the commit is uncertain. An embedded database has none; a deadlock stands in for it. */
export const brokenConnection = (db: Database): Error =>
  faults.find((error) => db.dialect.classify(error) === "unknown") ?? deadlock(db);
