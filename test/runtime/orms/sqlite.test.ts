import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PrismaLibSQL } from "@prisma/adapter-libsql";
import { integer, sqliteTable } from "drizzle-orm/sqlite-core";
import { drizzle } from "drizzle-orm/sqlite-proxy";
import knex, { type Knex } from "knex";
// @ts-expect-error: the package has it, and no types for it
import KnexBetterSqlite from "knex/lib/dialects/better-sqlite3/index.js";
import { Kysely, SqliteDialect, type Transaction } from "kysely";
import { DataSource, type EntityManager } from "typeorm";
import { describe, expect, it } from "vitest";
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPrisma,
  fromTypeOrm,
} from "../../../src/adapters/orm/index.js";
import { createOutbox } from "../../../src/index.js";
import { schemaBatches } from "../../../src/sql/migrate.js";
import { loadSqlite, type SqliteHandle } from "../../../src/sql/sqlite/client.js";
import { sqliteDialect } from "../../../src/sql/sqlite/dialect.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { ormSuite } from "./orm-suite.js";
import { type OrderClient, openPrisma } from "./prisma-client.js";

/** A file with a table of orders, and a connection of the caller's to it. */
async function withOrders() {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-orm-"));
  const file = join(folder, "app.db");
  const db = openSqlite({ file });
  const raw = (text: string) => db.driver.query({ name: "raw", text }, {});
  await raw("create table orders (id integer primary key)");
  const connection = new (await loadSqlite())(file);
  connection.exec("pragma busy_timeout = 5000");
  return {
    db,
    file,
    connection,
    fatal: "insert or rollback into orders (id) values (1)",
    countOrders: async () => Number((await raw("select count(*) as n from orders"))[0]!.n),
    async close() {
      connection.close();
      await db.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const reads = (text: string) => /^\s*(select|with|pragma)\b|\breturning\b/i.test(text);

/** What the libraries ask of a connection, which is better-sqlite3's shape. */
const likeBetterSqlite = (connection: SqliteHandle) => ({
  close: () => {},
  pragma: (text: string) => connection.prepare(`pragma ${text}`).all(),
  prepare(text: string) {
    const statement = connection.prepare(text);
    return {
      reader: reads(text),
      // as a list or one by one
      all: (...values: readonly unknown[]) => statement.all(...values.flat()),
      run: (...values: readonly unknown[]) =>
        statement.run(...values.flat()) as { changes: number; lastInsertRowid: number },
      iterate: (...values: readonly unknown[]) =>
        statement.all(...values.flat())[Symbol.iterator]() as IterableIterator<unknown>,
    };
  },
});

/** Knex's own dialect for better-sqlite3, on a connection that has the same shape. */
class KnexOnNodeSqlite extends KnexBetterSqlite {
  declare readonly config: { readonly connection: { open(): SqliteHandle } };

  _driver() {
    const { open } = this.config.connection;
    return class {
      constructor() {
        Object.assign(this, likeBetterSqlite(open()));
      }
    };
  }
}

ormSuite("Knex on SQLite", async () => {
  const made = await withOrders();
  const library = knex({
    client: KnexOnNodeSqlite as unknown as typeof Knex.Client,
    connection: {
      filename: "opened by the test",
      open: () => made.connection,
    } as Knex.Sqlite3ConnectionConfig,
    useNullAsDefault: true,
  });
  return {
    ...made,
    transaction: <T>(work: (trx: Knex.Transaction) => Promise<T>) => library.transaction(work),
    insertOrder: async (trx: Knex.Transaction, id) => trx("orders").insert({ id }),
    adapt: fromKnex,
    outside: library,
    close: async () => {
      await library.destroy();
      await made.close();
    },
  };
});

interface Tables {
  readonly orders: { readonly id: number };
}

ormSuite("Kysely on SQLite", async () => {
  const made = await withOrders();
  const library = new Kysely<Tables>({
    dialect: new SqliteDialect({ database: likeBetterSqlite(made.connection) }),
  });
  return {
    ...made,
    transaction: <T>(work: (trx: Transaction<Tables>) => Promise<T>) => library.transaction().execute(work),
    insertOrder: (trx: Transaction<Tables>, id) => trx.insertInto("orders").values({ id }).execute(),
    adapt: fromKysely,
    outside: library,
    close: async () => {
      await library.destroy();
      await made.close();
    },
  };
});

ormSuite("Drizzle on SQLite", async () => {
  const made = await withOrders();
  const library = drizzle(async (text, values) => {
    const statement = made.connection.prepare(text);
    if (reads(text)) return { rows: statement.all(...values) };
    statement.run(...values);
    return { rows: [] };
  });
  const orders = sqliteTable("orders", { id: integer().primaryKey() });
  type DrizzleOnSqlite = Parameters<Parameters<typeof library.transaction>[0]>[0];
  return {
    ...made,
    transaction: <T>(work: (tx: DrizzleOnSqlite) => Promise<T>) => library.transaction(work),
    insertOrder: async (tx: DrizzleOnSqlite, id) => tx.insert(orders).values({ id }).run(),
    adapt: fromDrizzle,
    outside: {},
    close: made.close,
  };
});

ormSuite("Prisma on SQLite", async () => {
  const made = await withOrders();
  const library = openPrisma("sqlite", new PrismaLibSQL({ url: `file:${made.file}` }));
  return {
    ...made,
    transaction: <T>(work: (tx: OrderClient) => Promise<T>) => library.$transaction(work),
    insertOrder: (tx: OrderClient, id) => tx.order.create({ data: { id } }),
    adapt: fromPrisma,
    outside: library,
    close: async () => {
      await library.$disconnect();
      await made.close();
    },
  };
});

ormSuite("TypeORM on SQLite", async () => {
  const made = await withOrders();
  /** Made with `new`, and the connection is the test's own. */
  function driver() {
    return likeBetterSqlite(made.connection);
  }
  const library = await new DataSource({ type: "better-sqlite3", database: made.file, driver }).initialize();
  return {
    ...made,
    transaction: <T>(work: (manager: EntityManager) => Promise<T>) => library.transaction(work),
    insertOrder: (manager: EntityManager, id) =>
      manager.createQueryBuilder().insert().into("orders", ["id"]).values({ id }).execute(),
    adapt: fromTypeOrm,
    outside: library.manager,
    close: async () => {
      await library.destroy();
      await made.close();
    },
  };
});

describe("TypeORM on SQLite (sql.js, in memory): the caller's transaction", () => {
  it("ADD-06 OBX-003 messages are there after the commit, and not after a rollback", async () => {
    const library = await new DataSource({ type: "sqljs" }).initialize();
    // its statements and nothing else: sql.js has the only connection to its database
    const outbox = createOutbox(openSqlite({ file: ":memory:" }));
    try {
      for (const batch of schemaBatches(sqliteDialect)) await library.query(batch);
      await library.transaction(async (manager) => {
        await outbox.enqueue({ topic: "t", payload: "1" }, { tx: fromTypeOrm(manager) });
        await outbox.enqueue(
          ["2", "3"].map((payload) => ({ topic: "t", payload })),
          { tx: fromTypeOrm(manager) },
        );
      });
      const failed = library.transaction(async (manager) => {
        await outbox.enqueue({ topic: "t", payload: "4" }, { tx: fromTypeOrm(manager) });
        throw new Error("the business says no");
      });
      await expect(failed).rejects.toThrow("the business says no");
      expect(await library.query("select Payload from Outbox order by Payload")).toEqual([
        { Payload: "1" },
        { Payload: "2" },
        { Payload: "3" },
      ]);
    } finally {
      await library.destroy();
    }
  });
});
