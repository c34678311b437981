import { randomUUID } from "node:crypto";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgSchema } from "drizzle-orm/pg-core";
import knex from "knex";
import { Kysely, PostgresDialect } from "kysely";
import { describe, expect, inject, it } from "vitest";
import { toDrizzle, toKysely } from "../../../src/adapters/orm/index.js";
import { defineApp, type SqlExecutor, statement } from "../../../src/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { type NativeDatabase, nativeSuite } from "./native-suite.js";

const url = inject("postgresUrl");

async function open(): Promise<NativeDatabase> {
  const schema = `native_${randomUUID().slice(0, 8)}`;
  const db = openPostgres({ url });
  const raw = (text: string) => db.driver.query({ name: "raw", text, unprepared: true }, {});
  await raw(`create schema ${schema}`);
  await raw(`create table ${schema}.orders (id integer primary key)`);
  return {
    url,
    schema,
    countOrders: async () => Number((await raw(`select count(*) as n from ${schema}.orders`))[0]!.n),
    async close() {
      await raw(`drop schema ${schema} cascade`);
      await db.close();
    },
  };
}

const define = defineApp.postgres;
interface Tables {
  readonly orders: { readonly id: number };
}
type Tx = SqlExecutor<"postgres">;

nativeSuite<"postgres">("Drizzle on PostgreSQL", {
  define,
  open,
  insertOrder: (tx, id, schema) =>
    drizzle(tx.native)
      .insert(pgSchema(schema).table("orders", { id: integer().primaryKey() }))
      .values({ id }),
});

const kyselyOn = (tx: Tx) => new Kysely<Tables>({ dialect: new PostgresDialect(toKysely(tx)) });

nativeSuite<"postgres">("Kysely on PostgreSQL", {
  define,
  open,
  insertOrder: (tx, id, schema) =>
    kyselyOn(tx).withSchema(schema).insertInto("orders").values({ id }).execute(),
});

const builder = knex({ client: "pg" });

nativeSuite<"postgres">("Knex on PostgreSQL", {
  define,
  open,
  insertOrder: async (tx, id, schema) =>
    builder.withSchema(schema).table("orders").insert({ id }).connection(tx.native),
});

nativeSuite<"postgres">("pg itself", {
  define,
  open,
  insertOrder: (tx, id, schema) => tx.native.query(`insert into ${schema}.orders (id) values ($1)`, [id]),
});

describe("native of a transaction on PostgreSQL", () => {
  it.each([true, false])(
    "ADD-06 statements run in the order in which they are sent, pipelined: %s",
    async (pipeline) => {
      const db = openPostgres({ url, config: { pipeline } });
      try {
        const seen = await db.driver.transaction(async (tx) => {
          const add = (who: string) => `insert into pg_temp.sent (who) values ('${who}')`;
          const sent = [
            tx.native.query("create temporary table sent (n serial, who text) on commit drop"),
            tx.query(statement("add", add("tx")), {}),
            tx.native.query(add("native")),
            tx.query(statement("add again", add("tx again")), {}),
          ];
          await Promise.all(sent);
          const { rows } = await tx.native.query("select who from pg_temp.sent order by n");
          const now = "select count(distinct pg_current_xact_id()) as n from pg_temp.sent";
          expect(Number((await tx.query(statement("transactions", now), {}))[0]!.n)).toBe(1);
          return rows.map(({ who }) => who);
        });
        expect(seen).toEqual(["tx", "native", "tx again"]);
      } finally {
        await db.close();
      }
    },
  );

  it("ADD-06 a transaction of the library's own inside of it is refused", async () => {
    const db = openPostgres({ url });
    try {
      const failed = db.driver.transaction((tx) =>
        kyselyOn(tx)
          .transaction()
          .execute(async () => {}),
      );
      await expect(failed).rejects.toThrow(/open already/);
      await expect(db.driver.transaction(async (tx) => toDrizzle(tx))).rejects.toThrow(
        /drizzle\(tx.native\)/,
      );
    } finally {
      await db.close();
    }
  });

  it("ADD-06 after a commit by the library the acknowledgement is refused", async () => {
    const db = openPostgres({ url });
    try {
      const failed = db.driver.transaction(async (tx) => {
        await tx.native.query("select 1");
        await tx.native.query("commit");
        await tx.query(statement("ack", "select 2"), {});
      });
      await expect(failed).rejects.toThrow(/has ended/);
    } finally {
      await db.close();
    }
  });
});
