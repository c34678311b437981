import { randomUUID } from "node:crypto";
import { PrismaPg } from "@prisma/adapter-pg";
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgSchema } from "drizzle-orm/pg-core";
import knex, { type Knex } from "knex";
import { Kysely, PostgresDialect, type Transaction } from "kysely";
import pg from "pg";
import { DataSource, type EntityManager } from "typeorm";
import { inject } from "vitest";
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPrisma,
  fromTypeOrm,
} from "../../../src/adapters/orm/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { type Orm, ormSuite } from "./orm-suite.js";
import { type OrderClient, openPrisma } from "./prisma-client.js";

const url = inject("postgresUrl");

/** A schema of its own with a table of orders. */
async function withOrders() {
  const schema = `orm_${randomUUID().slice(0, 8)}`;
  const db = openPostgres({ url });
  const raw = (text: string) => db.driver.query({ name: "raw", text, unprepared: true }, {});
  await raw(`create schema ${schema}`);
  await raw(`create table ${schema}.orders (id integer primary key)`);
  return {
    db,
    schema,
    fatal: `insert into ${schema}.orders (id) values (1)`,
    countOrders: async () => Number((await raw(`select count(*) as n from ${schema}.orders`))[0]!.n),
    async close() {
      await raw(`drop schema ${schema} cascade`);
      await db.close();
    },
  };
}

ormSuite("Knex on PostgreSQL", async () => {
  const made = await withOrders();
  const library = knex({ client: "pg", connection: url });
  return {
    ...made,
    transaction: <T>(work: (trx: Knex.Transaction) => Promise<T>) => library.transaction(work),
    insertOrder: async (trx: Knex.Transaction, id) =>
      trx.withSchema(made.schema).table("orders").insert({ id }),
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

ormSuite("Kysely on PostgreSQL", async () => {
  const made = await withOrders();
  const library = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }),
  });
  return {
    ...made,
    transaction: <T>(work: (trx: Transaction<Tables>) => Promise<T>) => library.transaction().execute(work),
    insertOrder: (trx: Transaction<Tables>, id) =>
      trx.withSchema(made.schema).insertInto("orders").values({ id }).execute(),
    adapt: fromKysely,
    outside: library,
    close: async () => {
      await library.destroy();
      await made.close();
    },
  };
});

ormSuite("Drizzle on PostgreSQL", async () => {
  const made = await withOrders();
  const pool = new pg.Pool({ connectionString: url });
  const library = drizzle(pool);
  const orders = pgSchema(made.schema).table("orders", { id: integer().primaryKey() });
  type DrizzleOnPg = Parameters<Parameters<typeof library.transaction>[0]>[0];
  const orm: Orm<DrizzleOnPg> = {
    ...made,
    transaction: (work) => library.transaction(work),
    insertOrder: (tx, id) => tx.insert(orders).values({ id }),
    countOrders: async () => Number((await library.select({ n: sql<string>`count(*)` }).from(orders))[0]!.n),
    adapt: fromDrizzle,
    outside: library,
    close: async () => {
      await pool.end();
      await made.close();
    },
  };
  return orm;
});

ormSuite("TypeORM on PostgreSQL", async () => {
  const made = await withOrders();
  const library = await new DataSource({ type: "postgres", url }).initialize();
  return {
    ...made,
    transaction: <T>(work: (manager: EntityManager) => Promise<T>) => library.transaction(work),
    insertOrder: (manager: EntityManager, id) =>
      manager.createQueryBuilder().insert().into(`${made.schema}.orders`, ["id"]).values({ id }).execute(),
    adapt: fromTypeOrm,
    outside: library.manager,
    close: async () => {
      await library.destroy();
      await made.close();
    },
  };
});

ormSuite("Prisma on PostgreSQL", async () => {
  const made = await withOrders();
  const library = openPrisma("postgresql", new PrismaPg({ connectionString: url }, { schema: made.schema }));
  return {
    ...made,
    transaction: <T>(work: (tx: OrderClient) => Promise<T>) => library.$transaction(work),
    insertOrder: (tx: OrderClient, id) => tx.order.create({ data: { id } }),
    countOrders: () => library.order.count(),
    adapt: fromPrisma,
    outside: library,
    close: async () => {
      await library.$disconnect();
      await made.close();
    },
  };
});
