import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { describe, expect, inject, it } from "vitest";
import type { Database } from "../../src/index.js";
import { ask, statement } from "../../src/sql/driver.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const url = inject("postgresUrl");
const two = statement("two", "select 'a' as x, 1 as y union all select 'b', 2");
const none = statement("none", "select 'a' as x where 1 = 0");
const wrong = statement("wrong", "select x from nowhere_to_be_found");

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
] as const)("%s is asked a question", (_name, open) => {
  it("FUN-07 answers with the first column, on a new connection and on one that is open", () =>
    withDatabase(open(), async ({ driver }) => {
      for (const _ of ["the first time", "again", "and again"]) {
        expect(await ask(driver, two).answers).toEqual(["a", "b"]);
        expect(await ask(driver, none).answers).toEqual([]);
      }
      expect(await driver.query(two, {})).toEqual([
        { x: "a", y: 1 },
        { x: "b", y: 2 },
      ]);
    }));

  it("FUN-07 tells what is wrong, and the next question is answered", () =>
    withDatabase(open(), async ({ driver }) => {
      for (const _ of ["the first time", "again"]) {
        await expect(ask(driver, wrong).answers).rejects.toThrow("nowhere_to_be_found");
        expect(await ask(driver, two).answers).toEqual(["a", "b"]);
      }
    }));

  it("FUN-07 many at once are all answered", () =>
    withDatabase(open(), async ({ driver }) => {
      await ask(driver, none).answers;
      const asked = Array.from({ length: 20 }, () => ask(driver, two).answers);
      expect(await Promise.all(asked)).toEqual(asked.map(() => ["a", "b"]));
    }));

  it("FUN-07 what was asked for before the database is closed is still answered", async () => {
    const { driver, close } = open();
    await ask(driver, none).answers;
    const first = ask(driver, two).answers;
    const second = driver.query(two, {});
    const closed = close();
    expect(await first).toEqual(["a", "b"]);
    expect(await second).toHaveLength(2);
    await closed;
    await expect(ask(driver, two).answers).rejects.toThrow("closed");
  });

  it("FUN-07 one that is given up after its answer is answered all the same", () =>
    withDatabase(open(), async ({ driver }) => {
      const { answers, cancel } = ask(driver, two);
      await answers;
      cancel(new Error("too late"));
      expect(await answers).toEqual(["a", "b"]);
      expect(await ask(driver, two).answers).toEqual(["a", "b"]);
    }));
});

it("FUN-07 a question that is planned anew each time is not prepared", () =>
  withDatabase(openPostgres({ url, maxConnections: 1 }), async ({ driver }) => {
    const prepared = statement("prepared", "select statement from pg_prepared_statements");
    const anew = { ...statement("anew", "select 'planned anew' as x"), unprepared: true };
    for (const _ of ["the first time", "again"]) await ask(driver, anew).answers;
    expect(await ask(driver, two).answers).toEqual(["a", "b"]);
    const texts = await ask(driver, prepared).answers;
    expect(texts).toContain(two.steps[0]);
    expect(texts).not.toContain(anew.steps[0]);
  }));

describe("a question that PostgreSQL does not answer", () => {
  const reason = new Error("given up");
  /** Waits for a lock that another session holds while `work` runs. */
  const behindLock = async (
    work: (parts: {
      driver: Database["driver"];
      question: ReturnType<typeof statement>;
      waiting: () => Promise<number>;
    }) => Promise<void>,
  ): Promise<void> => {
    const holder = new pg.Client(url);
    await holder.connect();
    const key = Math.floor(Math.random() * 2 ** 31);
    await holder.query("select pg_advisory_lock($1)", [key]);
    const question = statement("locked", `select pg_advisory_lock(${key})::text as locked`);
    const waiting = async (): Promise<number> => {
      const { rows } = await holder.query(
        "select count(*)::int as count from pg_locks where locktype = 'advisory' and objid = $1 and not granted",
        [key],
      );
      return (rows[0] as { count: number }).count;
    };
    try {
      await withDatabase(openPostgres({ url, maxConnections: 1 }), ({ driver }) =>
        work({ driver, question, waiting }),
      );
    } finally {
      await holder.end();
    }
  };

  it("FUN-07 ADD-08 is given up with its reason, no longer waits on the server, and leaves the pool a connection", () =>
    behindLock(async ({ driver, question, waiting }) => {
      expect(await ask(driver, two).answers).toEqual(["a", "b"]);
      const { answers, cancel } = ask(driver, question);
      const given = expect(answers).rejects.toBe(reason);
      await expect.poll(waiting).toBe(1);
      cancel(reason);
      await given;
      await expect.poll(waiting).toBe(0);
      expect(await ask(driver, two).answers).toEqual(["a", "b"]);
    }));

  it("FUN-07 may be given up while it still waits for a connection", () =>
    behindLock(async ({ driver, question, waiting }) => {
      await ask(driver, two).answers;
      const first = ask(driver, question);
      const second = ask(driver, two);
      const given = Promise.allSettled([first.answers, second.answers]);
      await expect.poll(waiting).toBe(1);
      second.cancel(reason);
      first.cancel(reason);
      expect((await given).map((one) => one.status === "rejected" && one.reason)).toEqual([reason, reason]);
      await expect.poll(waiting).toBe(0);
      expect(await ask(driver, two).answers).toEqual(["a", "b"]);
    }));

  it("FUN-07 FUN-12 tells that its connection was lost, and the next one gets another", () =>
    behindLock(async ({ driver, question, waiting }) => {
      await ask(driver, two).answers;
      const lost = expect(ask(driver, question).answers).rejects.toThrow();
      await expect.poll(waiting).toBe(1);
      const admin = new pg.Client(url);
      await admin.connect();
      await admin.query(
        "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and not granted",
      );
      await admin.end();
      await lost;
      await sleep(10);
      expect(await ask(driver, two).answers).toEqual(["a", "b"]);
    }));
});
