import pg from "pg";
import { describe, expect, inject, it } from "vitest";
import type { Database } from "../../src/index.js";
import { type SqlStatement, statement } from "../../src/sql/driver.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const url = inject("postgresUrl");
const two = statement("two", "select 'a' as x, 1 as y union all select 'b', 2");
const none = statement("none", "select 'a' as x where 1 = 0");
const wrong = statement("wrong", "select x from nowhere_to_be_found");

/** The first column of each row. */
const column = async (driver: Database["driver"], query: SqlStatement, signal?: AbortSignal) =>
  (await driver.query(query, {}, { signal })).map((row) => Object.values(row)[0]);

const withDatabase = async (db: Database, work: (db: Database) => Promise<void>): Promise<void> => {
  try {
    await work(db);
  } finally {
    await db.close();
  }
};

describe.each([
  ["PostgreSQL", () => openPostgres({ url, maxConnections: 1 })],
  ["PostgreSQL without prepared statements", () => openPostgres({ url, maxConnections: 1, prepare: false })],
  ["SQLite", () => openSqlite({ file: ":memory:" })],
] as const)("%s runs queries", (_name, open) => {
  it("returns the rows, on a new connection and on an open one", () =>
    withDatabase(open(), async ({ driver }) => {
      for (const _ of ["the first time", "again", "and again"]) {
        expect(await column(driver, two)).toEqual(["a", "b"]);
        expect(await column(driver, none)).toEqual([]);
      }
      expect(await driver.query(two, {})).toEqual([
        { x: "a", y: 1 },
        { x: "b", y: 2 },
      ]);
    }));

  it("rejects with the error, and runs the next query", () =>
    withDatabase(open(), async ({ driver }) => {
      for (const _ of ["the first time", "again"]) {
        await expect(column(driver, wrong)).rejects.toThrow("nowhere_to_be_found");
        expect(await column(driver, two)).toEqual(["a", "b"]);
      }
    }));

  it("runs many queries at the same time", () =>
    withDatabase(open(), async ({ driver }) => {
      await column(driver, none);
      const running = Array.from({ length: 20 }, () => column(driver, two));
      expect(await Promise.all(running)).toEqual(running.map(() => ["a", "b"]));
    }));

  it("finishes the queries that were started before close", async () => {
    const { driver, close } = open();
    await column(driver, none);
    const first = column(driver, two);
    const second = driver.query(two, {});
    const closed = close();
    expect(await first).toEqual(["a", "b"]);
    expect(await second).toHaveLength(2);
    await closed;
    await expect(column(driver, two)).rejects.toThrow("closed");
  });

  it("ignores an abort after the rows arrived", () =>
    withDatabase(open(), async ({ driver }) => {
      const stop = new AbortController();
      const rows = column(driver, two, stop.signal);
      await rows;
      stop.abort(new Error("too late"));
      expect(await rows).toEqual(["a", "b"]);
      expect(await column(driver, two)).toEqual(["a", "b"]);
    }));
});

it("an unprepared statement is not prepared", () =>
  withDatabase(openPostgres({ url, maxConnections: 1 }), async ({ driver }) => {
    const prepared = statement("prepared", "select statement from pg_prepared_statements");
    const anew = { ...statement("anew", "select 'planned anew' as x"), unprepared: true };
    for (const _ of ["the first time", "again"]) await column(driver, anew);
    expect(await column(driver, two)).toEqual(["a", "b"]);
    const texts = await column(driver, prepared);
    expect(texts).toContain(two.text);
    expect(texts).not.toContain(anew.text);
  }));

describe("a query that waits for a lock on PostgreSQL", () => {
  const reason = new Error("aborted by the test");
  /** Waits for a lock that another session holds while `work` runs. */
  const behindLock = async (
    work: (parts: {
      driver: Database["driver"];
      locked: ReturnType<typeof statement>;
      waiting: () => Promise<number>;
    }) => Promise<void>,
  ): Promise<void> => {
    const holder = new pg.Client(url);
    await holder.connect();
    const key = Math.floor(Math.random() * 2 ** 31);
    await holder.query("select pg_advisory_lock($1)", [key]);
    const locked = statement("locked", `select pg_advisory_lock(${key})::text as locked`);
    const waiting = async (): Promise<number> => {
      const { rows } = await holder.query(
        "select count(*)::int as count from pg_locks where locktype = 'advisory' and objid = $1 and not granted",
        [key],
      );
      return (rows[0] as { count: number }).count;
    };
    try {
      await withDatabase(openPostgres({ url, maxConnections: 1 }), ({ driver }) =>
        work({ driver, locked, waiting }),
      );
    } finally {
      await holder.end();
    }
  };

  it("ADD-08 rejects with the signal's reason, ends on the server, and returns its connection to the pool", () =>
    behindLock(async ({ driver, locked, waiting }) => {
      expect(await column(driver, two)).toEqual(["a", "b"]);
      const stop = new AbortController();
      const aborted = expect(column(driver, locked, stop.signal)).rejects.toBe(reason);
      await expect.poll(waiting).toBe(1);
      stop.abort(reason);
      await aborted;
      await expect.poll(waiting).toBe(0);
      expect(await column(driver, two)).toEqual(["a", "b"]);
    }));

  it("may be aborted while it waits for a connection", () =>
    behindLock(async ({ driver, locked, waiting }) => {
      await column(driver, two);
      const [first, second] = [new AbortController(), new AbortController()];
      const ended = Promise.allSettled([
        column(driver, locked, first.signal),
        column(driver, two, second.signal),
      ]);
      await expect.poll(waiting).toBe(1);
      second.abort(reason);
      first.abort(reason);
      expect((await ended).map((one) => one.status === "rejected" && one.reason)).toEqual([reason, reason]);
      await expect.poll(waiting).toBe(0);
      expect(await column(driver, two)).toEqual(["a", "b"]);
    }));

  it("FUN-12 rejects when its connection is lost, and the next query gets another one", () =>
    behindLock(async ({ driver, locked, waiting }) => {
      await column(driver, two);
      const lost = expect(column(driver, locked)).rejects.toThrow();
      await expect.poll(waiting).toBe(1);
      const admin = new pg.Client(url);
      await admin.connect();
      await admin.query(
        "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and not granted",
      );
      await admin.end();
      await lost;
      await expect.poll(() => column(driver, two).catch(() => undefined)).toEqual(["a", "b"]);
    }));
});
