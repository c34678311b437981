import { randomUUID } from "node:crypto";
import mssql from "mssql";
import { dropSchema } from "../../src/cli/scratch-database.js";
import type { Database } from "../../src/sql/dialect.js";
import type { SqlExecutor, SqlQueryable } from "../../src/sql/driver.js";
import { fromMssql, openSqlServer } from "../../src/sql/sqlserver/index.js";
import { parseMssqlUrl } from "../../src/sql/sqlserver/open.js";
import type { ContractHarness, TestDatabase } from "../contract/harness.js";
import { isBabelfish } from "../contract/support/database.js";
import { toBabelfish, withRowLock } from "./babelfish-schema.js";

export function sqlServerHarness(url: string): ContractHarness {
  return { name: "SQL Server", open: () => open(url) };
}

/** Babelfish needs seconds for the first call of a procedure in each session, and tests open many. */
export const patient = { requestTimeout: 120_000, pool: { acquireTimeoutMillis: 120_000 } };

async function open(url: string): Promise<TestDatabase> {
  const schema = `t_${randomUUID().slice(0, 8)}`;
  const plain = openSqlServer({ url, maxConnections: 4, config: patient });
  const run = (sql: string) => plain.driver.query({ name: "raw", text: sql, unprepared: true }, {});
  // Babelfish accepts SQL Server's lock hints and ignores them, and does not show which statement waits.
  const isServer = !(await isBabelfish({ db: plain, raw: run }));
  const clock = testClock();
  const fitted = (one: Database) => withClock(isServer ? one : deployingOnBabelfish(one), clock);
  const another = () => fitted(openSqlServer({ url, maxConnections: 4, config: patient }));
  const db = fitted(plain);
  const opened = [db];
  const raw: TestDatabase["raw"] = async (sql) => {
    const [first, ...others] = isServer ? [sql] : toBabelfish(sql);
    let rows = await run(first!);
    for (const batch of others) rows = await run(batch);
    return rows;
  };
  return {
    db,
    schema,
    supports: {
      concurrentWriters: true,
      rowLocks: isServer,
      visibleLockWaits: isServer,
      snapshotReads: false, // not without READ_COMMITTED_SNAPSHOT
      severalConnections: true,
    },
    reusesTables: true,
    raw,
    reopen() {
      const reopened = another();
      opened.push(reopened);
      return reopened;
    },
    async begin(when) {
      const pool = new mssql.ConnectionPool({ ...parseMssqlUrl(url), ...patient, pool: { max: 1 } });
      await pool.connect();
      const transaction = pool.transaction();
      if (when !== "never") await transaction.begin();
      const end = async (how: "commit" | "rollback") => {
        try {
          await transaction[how]().catch((error) => {
            // an error may have made the server roll back already
            if (how === "commit" || error.code !== "EABORT") throw error;
          });
        } finally {
          await pool.close();
        }
      };
      return {
        tx: clock(fromMssql(transaction)),
        native: transaction,
        run: async (sql) => {
          await transaction.request().batch(sql);
        },
        commit: () => end("commit"),
        rollback: () => end("rollback"),
      };
    },
    async close() {
      await dropSchema(db, schema);
      await Promise.all(opened.map((one) => one.close()));
    },
  };
}

type WithClock = <Executor extends SqlQueryable>(executor: Executor) => Executor;

const serverClock = "sysutcdatetime()";
/** N't', without the quotes that a text within a text would need twice. */
const clockKey = `nchar(${"t".charCodeAt(0)})`;
const sessionClock = `coalesce(cast(session_context(${clockKey}) as datetime2(3)), ${serverClock})`;

/**
 * The shipped procedures read the server's clock. Tests deploy a variant that reads the session's first, and each statement sets that
 * to the time of its store before it calls one: from the first time that a test passes on, because a session serves many stores.
 */
function testClock(): WithClock {
  let isUsed = false;
  return (executor) => ({
    ...executor,
    query(statement, params, options) {
      if (statement.name === "schema")
        return executor.query({ ...statement, text: withSessionClock(statement.text) }, params, options);
      isUsed ||= typeof params.now === "string";
      if (!isUsed || statement.unprepared) return executor.query(statement, params, options);
      const text = `exec sp_set_session_context N't', @now;\n${statement.text.replaceAll(serverClock, sessionClock)}`;
      return executor.query({ ...statement, text }, { now: null, ...params }, options);
    },
  });
}

const withSessionClock = (batch: string): string =>
  batch.startsWith("create or alter procedure") ? batch.replaceAll(serverClock, sessionClock) : batch;

/** A database whose stores take a clock, on procedures that a harness deployed. */
export function withClock(db: Database, clock: WithClock = testClock()): Database {
  const { ownClock: _, ...dialect } = db.dialect;
  const { driver } = db;
  return {
    ...db,
    dialect,
    driver: {
      ...clock(driver),
      transaction: (work, options) => driver.transaction((tx) => work(clock(tx)), options),
    },
    exclusively: (schema, work) => db.exclusively(schema, (tx) => work(clock(tx))),
  };
}

/** No server, or a stand-in for one, on which nothing should be timed. */
export async function isSlowServer(url: string): Promise<boolean> {
  if (url === "") return true;
  const db = openSqlServer({ url, config: patient });
  try {
    return await isBabelfish({ db, raw: (text) => db.driver.query({ name: "raw", text }, {}) });
  } finally {
    await db.close();
  }
}

/** A database whose schema is deployed in the form that Babelfish accepts, and that locks the rows of operations there. */
function deployingOnBabelfish(db: Database): Database {
  const translating = (tx: SqlExecutor): SqlExecutor => ({
    ...tx,
    async query(statement, params, options) {
      if (statement.name === "lock operation")
        return tx.query({ ...statement, text: withRowLock(statement.text) }, params, options);
      if (statement.name !== "schema") return tx.query(statement, params, options);
      for (const text of toBabelfish(statement.text)) await tx.query({ ...statement, text }, params, options);
      return [];
    },
  });
  const { driver } = db;
  return {
    ...db,
    driver: {
      ...driver,
      transaction: (work, options) => driver.transaction((tx) => work(translating(tx)), options),
    },
    exclusively: (schema, work) => db.exclusively(schema, (tx) => work(translating(tx))),
  };
}
