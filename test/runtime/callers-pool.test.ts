import mssql from "mssql";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createOutbox, type Database, migrate, newOwnerToken, statement } from "../../src/index.js";
import { fromPg, openPostgres } from "../../src/sql/postgres/index.js";
import { fromMssql, openSqlServer } from "../../src/sql/sqlserver/index.js";
import { parseMssqlUrl } from "../../src/sql/sqlserver/open.js";
import { useDatabase } from "../contract/harness.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { patient, sqlServerHarness } from "../support/sqlserver-harness.js";

const one = { topic: "t", payload: "" };
const select = statement("select", "select 1 as one");

/** Enqueues alone and in a transaction of the driver's, rolls one back, and settles what it claims. */
async function usesAQueue(db: Database, schema: string): Promise<void> {
  const outbox = createOutbox(db, { schema });
  const owner = newOwnerToken();
  const first = await outbox.enqueue({ ...one, expiresAt: new Date(Date.now() + 3_600_000) });
  const second = await db.driver.transaction((tx) => outbox.enqueue(one, { tx }));
  const undone = db.driver.transaction(async (tx) => {
    await outbox.enqueue(one, { tx });
    throw new Error("the business says no");
  });
  await expect(undone).rejects.toThrow("the business says no");
  const claimed = await outbox.claim({ owner });
  expect(claimed.map(({ id }) => id)).toEqual([first, second]);
  expect(Math.abs(claimed[0]!.createdAt.getTime() - Date.now())).toBeLessThan(600_000);
  expect((await outbox.ack(owner, claimed)).lost).toEqual([]);
}

describe("openPostgres with a pool of the caller's", () => {
  const database = useDatabase(postgresHarness(inject("postgresUrl")));
  const connectionString = inject("postgresUrl");
  let pool: pg.Pool;
  beforeAll(async () => {
    await migrate(database().db, { schema: database().schema! });
    pool = new pg.Pool({ connectionString, max: 2 });
  });
  afterAll(() => pool.end());

  it("OBX-002 OBX-003 uses it, shares it with the caller, and leaves it open", async () => {
    const db = openPostgres({ pool });
    await usesAQueue(db, database().schema!);
    const client = await pool.connect();
    await client.query("begin");
    const outbox = createOutbox(db, { schema: database().schema! });
    const id = await outbox.enqueue(one, { tx: fromPg(client) });
    await client.query("commit");
    client.release();
    expect(await outbox.get({ id })).toMatchObject(one);
    await db.close();
    await expect(db.driver.query(select, {})).rejects.toThrow(/closed/);
    expect((await pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
    expect([pool.totalCount <= 2, pool.idleCount]).toEqual([true, pool.totalCount]);
  });

  it("IBX-104 OBX-082 a connection that is lost in use leaves the pool, and the process goes on", async () => {
    const db = openPostgres({ pool });
    const kill = statement("kill", "select pg_terminate_backend(pg_backend_pid())");
    await expect(db.driver.query(kill, {})).rejects.toThrow();
    expect(await db.driver.query(select, {})).toEqual([{ one: 1 }]);
    await db.close();
  });

  it("an aborted call ends at once, and its connection is not used again", async () => {
    const db = openPostgres({ pool });
    const controller = new AbortController();
    const sleeping = db.driver.query(statement("sleep", "select pg_sleep(60)"), {}, controller);
    await expect.poll(() => pool.totalCount - pool.idleCount).toBe(1);
    controller.abort(new Error("the host is shutting down"));
    await expect(sleeping).rejects.toThrow("the host is shutting down");
    await db.close();
    expect(pool.idleCount).toBe(pool.totalCount);
  });

  it("refuses a pool beside other settings, and what is no pool", () => {
    for (const other of [{ url: connectionString }, { config: {} }, { maxConnections: 2 }])
      expect(() => openPostgres({ pool, ...other })).toThrow(/not both/);
    for (const wrong of [null, {}, new pg.Client()])
      expect(() => openPostgres({ pool: wrong as never })).toThrow(/must be a pg.Pool/);
  });
});

const mssqlUrl = inject("sqlServerUrl");

describe.skipIf(mssqlUrl === "")("openSqlServer with a pool of the caller's", () => {
  const database = useDatabase(sqlServerHarness(mssqlUrl));
  let pool: mssql.ConnectionPool;
  beforeAll(async () => {
    await migrate(database().db, { schema: database().schema!, inbox: false });
    pool = new mssql.ConnectionPool({ ...parseMssqlUrl(mssqlUrl), ...patient } as mssql.config);
  }, 300_000);
  afterAll(() => pool.close());

  it("OBX-002 OBX-003 connects it, uses it, shares it with the caller, and leaves it open", async () => {
    const db = openSqlServer({ pool });
    await usesAQueue(db, database().schema!);
    const transaction = pool.transaction();
    await transaction.begin();
    const outbox = createOutbox(db, { schema: database().schema! });
    const id = await outbox.enqueue(one, { tx: fromMssql(transaction) });
    await transaction.commit();
    expect(await outbox.get({ id })).toMatchObject(one);
    await db.close();
    await expect(db.driver.query(select, {})).rejects.toThrow(/closed/);
    expect((await pool.query("select 1 as one")).recordset[0]).toEqual({ one: 1 });
  }, 300_000);
});

describe("openSqlServer: what a pool must be", () => {
  const settings = { server: "127.0.0.1", options: { encrypt: false } };

  it("refuses a pool beside other settings, what is no pool, and one that reads times in local time", () => {
    const pool = new mssql.ConnectionPool(settings);
    for (const other of [{ url: "mssql://127.0.0.1/x" }, { config: settings }, { maxConnections: 2 }])
      expect(() => openSqlServer({ pool, ...other })).toThrow(/not both/);
    expect(() => openSqlServer({ pool: {} as never })).toThrow(/must be a ConnectionPool/);
    const local = new mssql.ConnectionPool({ ...settings, options: { useUTC: false } });
    expect(() => openSqlServer({ pool: local })).toThrow(/useUTC/);
  });
});
