import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import { Kysely, SqliteDialect } from "kysely";
import { describe, expect, it } from "vitest";
import { toDrizzle, toKysely } from "../../../src/adapters/orm/index.js";
import {
  createDispatcher,
  createInbox,
  defineApp,
  type InboxMessage,
  migrate,
  type SqlExecutor,
  timeBudget,
} from "../../../src/index.js";
import { loadSqlite } from "../../../src/sql/sqlite/client.js";
import { fromSqlite, openSqlite, type SqliteTransactionConnection } from "../../../src/sql/sqlite/index.js";
import { gate } from "../../contract/support/gate.js";
import { type NativeDatabase, nativeSuite } from "./native-suite.js";

async function open(): Promise<NativeDatabase> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-native-"));
  const db = openSqlite({ file: join(folder, "app.db") });
  const raw = (text: string) => db.driver.query({ name: "raw", text }, {});
  await raw("create table orders (id integer primary key)");
  return {
    url: `sqlite:${join(folder, "app.db")}`,
    countOrders: async () => Number((await raw("select count(*) as n from orders"))[0]!.n),
    async close() {
      await db.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const define = defineApp.sqlite;
interface Tables {
  readonly orders: { readonly id: number };
}
const orders = sqliteTable("orders", { id: integer().primaryKey() });
const kyselyOn = (tx: SqlExecutor<"sqlite">) =>
  new Kysely<Tables>({ dialect: new SqliteDialect(toKysely(tx)) });

nativeSuite<"sqlite">("Drizzle on SQLite", {
  define,
  open,
  insertOrder: (tx, id) => drizzle(toDrizzle(tx)).insert(orders).values({ id }),
});

nativeSuite<"sqlite">("Kysely on SQLite", {
  define,
  open,
  insertOrder: (tx, id) => kyselyOn(tx).insertInto("orders").values({ id }).execute(),
});

nativeSuite<"sqlite">("node:sqlite itself", {
  define,
  open,
  insertOrder: async (tx, id) => tx.native.prepare("insert into orders (id) values (?)").run(id),
});

describe("native of a transaction on SQLite", () => {
  it("ADD-06 libraries read what they wrote, one row and many", async () => {
    const db = openSqlite({ file: ":memory:" });
    try {
      await db.driver.query({ name: "raw", text: "create table orders (id integer primary key)" }, {});
      await db.driver.transaction(async (tx) => {
        const library = drizzle(toDrizzle(tx));
        await library.insert(orders).values([{ id: 1 }, { id: 2 }]);
        expect(await library.select().from(orders)).toEqual([{ id: 1 }, { id: 2 }]);
        expect(await library.select().from(orders).limit(1).get()).toEqual({ id: 1 });
        const added = kyselyOn(tx).insertInto("orders").values({ id: 3 }).returningAll();
        expect(await added.execute()).toEqual([{ id: 3 }]);
        expect(await kyselyOn(tx).selectFrom("orders").selectAll().execute()).toHaveLength(3);
        await expect(
          kyselyOn(tx)
            .transaction()
            .execute(async () => {}),
        ).rejects.toThrow(/open already/);
      });
    } finally {
      await db.close();
    }
  });

  it("ADD-06 Drizzle reads a join whose tables have columns of the same name", async () => {
    const users = sqliteTable("users", { id: integer().primaryKey(), name: text() });
    const sales = sqliteTable("sales", { id: integer().primaryKey(), userId: integer(), name: text() });
    const db = openSqlite({ file: ":memory:" });
    const raw = (text: string) => db.driver.query({ name: "raw", text }, {});
    try {
      await raw("create table users (id integer primary key, name text)");
      await raw("create table sales (id integer primary key, userId integer, name text)");
      await db.driver.transaction(async (tx) => {
        const library = drizzle(toDrizzle(tx));
        await library.insert(users).values({ id: 1, name: "Ada" });
        await library.insert(sales).values({ id: 7, userId: 1, name: "lamp" });
        const join = () => library.select().from(sales).innerJoin(users, eq(sales.userId, users.id));
        const joined = { sales: { id: 7, userId: 1, name: "lamp" }, users: { id: 1, name: "Ada" } };
        expect(await join()).toEqual([joined]);
        expect(await join().get()).toEqual(joined);
      });
    } finally {
      await db.close();
    }
  });

  it("ADD-06 Drizzle's reads are refused on a connection that returns rows only as objects", async () => {
    const connection = new (await loadSqlite())(":memory:");
    try {
      connection.exec("create table orders (id integer primary key)");
      // as Node's own before 22.16
      const older = (text: string) => {
        const statement = connection.prepare(text);
        return { all: statement.all.bind(statement), run: statement.run.bind(statement) };
      };
      const library = drizzle(toDrizzle(fromSqlite({ prepare: older })));
      await library.insert(orders).values({ id: 1 });
      await expect(library.select().from(orders)).rejects.toMatchObject({
        cause: { message: expect.stringMatching(/Node 22\.16/) },
      });
    } finally {
      connection.close();
    }
  });

  it("ADD-04 ADD-12 what a handler kept of native writes nothing after its timeout: not into another's transaction, and not by itself", async () => {
    const db = openSqlite({ file: ":memory:" });
    const raw = (text: string) => db.driver.query({ name: "raw", text }, {});
    const now = new Date("2026-01-02T03:04:05Z"); // stands still: the slow one's back-off does not end
    const inbox = createInbox(db, { clock: () => now });
    const mayWrite = gate();
    const hasWritten = gate();
    let writeLate: () => Promise<readonly unknown[]> = async () => [];
    let errors: readonly unknown[] = [];
    const dispatcher = createDispatcher<InboxMessage, SqlExecutor<"sqlite">>({
      logger: false,
      handlers: {
        slow: {
          transactional: true,
          timeoutMs: 200,
          async handle(_message, { tx }) {
            writeLate = lateWriter(tx!);
            await mayWrite.promise;
            errors = await writeLate();
            hasWritten.open();
          },
        },
        other: {
          transactional: true,
          async handle(_message, { tx }) {
            tx!.native.exec("insert into orders (id) values (1)");
            mayWrite.open();
            await hasWritten.promise;
          },
        },
      },
    });
    try {
      await migrate(db);
      await raw("create table orders (id integer primary key)");
      await inbox.receive({ source: "s", messageId: "1", topic: "slow", payload: "" });
      expect(await dispatcher.run(inbox, timeBudget(60_000))).toMatchObject({ abandoned: 1 });
      await inbox.receive({ source: "s", messageId: "2", topic: "other", payload: "" });
      expect(await dispatcher.run(inbox, timeBudget(60_000))).toMatchObject({ acked: 1 });
      const refused = Array(6).fill(expect.stringMatching(/has ended/));
      expect([errors, await writeLate()]).toEqual([refused, refused]);
      expect(await raw("select id from orders")).toEqual([{ id: 1 }]);
    } finally {
      await db.close();
    }
  });

  it("ADD-04 native writes nothing by itself after SQLite rolled its transaction back", async () => {
    const db = openSqlite({ file: ":memory:" });
    const raw = (text: string) => db.driver.query({ name: "raw", text }, {});
    try {
      await raw("create table orders (id integer primary key)");
      await raw("insert into orders (id) values (1)");
      const work = db.driver.transaction(async ({ native }) => {
        expect(() => native.exec("insert or rollback into orders (id) values (1)")).toThrow(/UNIQUE/);
        native.exec("insert into orders (id) values (2)");
      });
      await expect(work).rejects.toThrow(/has ended/);
      expect(await raw("select id from orders")).toEqual([{ id: 1 }]);
    } finally {
      await db.close();
    }
  });

  it("ADD-06 native is a DatabaseSync, whose rows can be iterated", async () => {
    const DatabaseSync = await loadSqlite();
    const db = openSqlite({ file: ":memory:" });
    try {
      await db.driver.transaction(async ({ native }) => {
        expect(native).toBeInstanceOf(DatabaseSync);
        const { isTransaction } = native as SqliteTransactionConnection;
        expect(isTransaction).toBe(true);
        const rows = native.prepare("select 1 as id union all select 2") as Partial<Iterating> as Iterating;
        expect([...rows.iterate()]).toEqual([{ id: 1 }, { id: 2 }]);
      });
    } finally {
      await db.close();
    }
  });
});

/** What Node's older types do not have. */
interface Iterating {
  iterate(): IterableIterator<unknown>;
}

/** Keeps what a handler may keep of its transaction, and writes an order in each of these ways. Returns the errors. */
function lateWriter(tx: SqlExecutor<"sqlite">): () => Promise<readonly unknown[]> {
  const { native } = tx;
  const library = drizzle(toDrizzle(tx));
  const kysely = kyselyOn(tx);
  const kept = native.prepare("insert into orders (id) values (11)");
  const lazy = (
    native.prepare("insert into orders (id) values (12) returning id") as Partial<Iterating> as Iterating
  ).iterate();
  const ways: readonly (() => unknown)[] = [
    () => native.exec("insert into orders (id) values (13)"),
    () => native.prepare("insert into orders (id) values (14)").run(),
    () => kept.run(),
    () => [...lazy],
    () => library.insert(orders).values({ id: 15 }),
    () => kysely.insertInto("orders").values({ id: 16 }).execute(),
  ];
  return () =>
    Promise.all(
      ways.map(async (write) => {
        try {
          return await write();
        } catch (error) {
          const { message, cause } = error as Error;
          return cause instanceof Error ? cause.message : message;
        }
      }),
    );
}
