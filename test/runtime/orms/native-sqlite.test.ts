import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import { Kysely, SqliteDialect } from "kysely";
import { describe, expect, it } from "vitest";
import { toDrizzle, toKysely } from "../../../src/adapters/orm/index.js";
import type { SqlExecutor } from "../../../src/index.js";
import { defineApp } from "../../../src/index.js";
import { loadSqlite } from "../../../src/sql/sqlite/client.js";
import { fromSqlite, openSqlite } from "../../../src/sql/sqlite/index.js";
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
});
