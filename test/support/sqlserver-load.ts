import { randomUUID } from "node:crypto";
import mssql from "mssql";
import { fromMssql, openSqlServer } from "../../src/sql/sqlserver/index.js";
import { parseMssqlUrl } from "../../src/sql/sqlserver/open.js";
import type { TestDatabase } from "../contract/harness.js";
import { isBabelfish } from "../contract/support/database.js";
import { sqlServerHarness } from "./sqlserver-harness.js";

export interface LoadedDatabase {
  readonly database: TestDatabase;
  readonly url: string;
  end(): Promise<void>;
}

/** A database of its own with READ_COMMITTED_SNAPSHOT on or off; a schema of the given one when that is undefined. */
export async function openDatabase(
  given: string,
  snapshot: "on" | "off" | undefined,
): Promise<LoadedDatabase> {
  if (snapshot === undefined) {
    const database = await sqlServerHarness(given).open();
    return { database, url: given, end: () => database.close() };
  }
  const name = `oncebox_${randomUUID().slice(0, 8)}`;
  const server = openSqlServer({ url: given, maxConnections: 1 });
  const run = (text: string) => server.driver.query({ name: "load", text, unprepared: true }, {});
  await run(`create database [${name}]`);
  await run(`alter database [${name}] set read_committed_snapshot ${snapshot} with rollback immediate`);
  await run(`alter database [${name}] set allow_snapshot_isolation on`);
  const url = new URL(given);
  url.pathname = `/${name}`;
  const database = await sqlServerHarness(url.href).open();
  return {
    database,
    url: url.href,
    async end() {
      await database.close();
      await run(`alter database [${name}] set single_user with rollback immediate`);
      await run(`drop database [${name}]`);
      await server.close();
    },
  };
}

/** A caller's transaction under SNAPSHOT. */
export async function beginSnapshot(url: string) {
  const pool = new mssql.ConnectionPool({ ...parseMssqlUrl(url), pool: { max: 1 } });
  await pool.connect();
  const transaction = pool.transaction();
  await transaction.begin(mssql.ISOLATION_LEVEL.SNAPSHOT);
  return {
    tx: fromMssql(transaction),
    run: (text: string) => transaction.request().batch(text),
    async commit() {
      await transaction.commit();
      await pool.close();
    },
  };
}

/** How many deadlocks the server has had since it started. Babelfish does not count them. */
export async function deadlocksOf(database: TestDatabase): Promise<number> {
  if (await isBabelfish(database)) return 0;
  const [row] = await database.raw(
    "select cntr_value as n from sys.dm_os_performance_counters where counter_name like 'Number of Deadlocks/sec%' and instance_name = '_Total'",
  );
  return Number(row!.n);
}

/** The pages that a procedure has read since it was compiled. */
export async function readsOf(database: TestDatabase, procedure: string): Promise<number> {
  const [row] = await database.raw(
    `select sum(s.total_logical_reads) as n from sys.dm_exec_procedure_stats s
where s.database_id = db_id() and s.object_id = object_id(N'[${database.schema}].[${procedure}]')`,
  );
  return Number(row!.n);
}
