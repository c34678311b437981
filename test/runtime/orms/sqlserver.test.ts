import { PrismaMssql } from "@prisma/adapter-mssql";
import knex, { type Knex } from "knex";
import { Kysely, MssqlDialect, type Transaction } from "kysely";
import * as tarn from "tarn";
import * as tedious from "tedious";
import { DataSource, type EntityManager } from "typeorm";
import { describe, inject } from "vitest";
import { fromKnex, fromKysely, fromPrisma, fromTypeOrm } from "../../../src/adapters/orm/index.js";
import { parseMssqlUrl } from "../../../src/sql/sqlserver/open.js";
import { sqlServerHarness } from "../../support/sqlserver-harness.js";
import { ormSuite } from "./orm-suite.js";
import { type OrderClient, openPrisma } from "./prisma-client.js";

const url = inject("sqlServerUrl");

/** A schema of its own with a table of orders. */
async function withOrders() {
  const database = await sqlServerHarness(url).open();
  const { db, raw, close } = database;
  const schema = database.schema!;
  await raw(`create schema ${schema}`);
  await raw(`create table ${schema}.orders (id int not null primary key)`);
  return {
    db,
    schema,
    fatal: `set xact_abort on; insert into ${schema}.orders (id) values (1)`,
    countOrders: async () => Number((await raw(`select count(*) as n from ${schema}.orders`))[0]!.n),
    close,
  };
}

const settings = () => {
  const parsed = parseMssqlUrl(url);
  const { server = "", port = 1433, database = "", user = "", password = "" } = parsed;
  const { encrypt = true, trustServerCertificate = false } = parsed.options ?? {};
  const options = { encrypt: encrypt !== false, trustServerCertificate, requestTimeout: 120_000 };
  return { server, port, database, user, password, options };
};

interface Tables {
  readonly orders: { readonly id: number };
}

// some servers that speak T-SQL need seconds for the first statement of each session
describe.skipIf(url === "")(
  "SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  { timeout: 300_000 },
  () => {
    ormSuite("Knex on SQL Server", async () => {
      const made = await withOrders();
      const library = knex({ client: "mssql", connection: settings() });
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

    ormSuite("Kysely on SQL Server", async () => {
      const made = await withOrders();
      const { server, port, database, user, password, options } = settings();
      const connection = () =>
        new tedious.Connection({
          server,
          authentication: { type: "default", options: { userName: user, password } },
          options: { ...options, port, database },
        });
      const library = new Kysely<Tables>({
        dialect: new MssqlDialect({
          tarn: { ...tarn, options: { min: 0, max: 2 } },
          tedious: { ...tedious, connectionFactory: connection },
        }),
      });
      return {
        ...made,
        transaction: <T>(work: (trx: Transaction<Tables>) => Promise<T>) =>
          library.transaction().execute(work),
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

    ormSuite("TypeORM on SQL Server", async () => {
      const made = await withOrders();
      const { server, port, database, user, password, options } = settings();
      const library = await new DataSource({
        type: "mssql",
        host: server,
        port,
        database,
        username: user,
        password,
        options: { encrypt: options.encrypt, trustServerCertificate: options.trustServerCertificate },
        requestTimeout: options.requestTimeout,
      }).initialize();
      return {
        ...made,
        transaction: <T>(work: (manager: EntityManager) => Promise<T>) => library.transaction(work),
        insertOrder: (manager: EntityManager, id) =>
          manager
            .createQueryBuilder()
            .insert()
            .into(`${made.schema}.orders`, ["id"])
            .values({ id })
            .execute(),
        adapt: fromTypeOrm,
        outside: library.manager,
        close: async () => {
          await library.destroy();
          await made.close();
        },
      };
    });

    ormSuite("Prisma on SQL Server", async () => {
      const made = await withOrders();
      const adapter = new PrismaMssql({ ...settings(), requestTimeout: 120_000 }, { schema: made.schema });
      const library = openPrisma("sqlserver", adapter);
      return {
        ...made,
        needsAwait: true,
        transaction: <T>(work: (tx: OrderClient) => Promise<T>) =>
          library.$transaction(work, { maxWait: 60_000, timeout: 120_000 }),
        insertOrder: (tx: OrderClient, id) => tx.order.create({ data: { id } }),
        adapt: fromPrisma,
        outside: library,
        close: async () => {
          await library.$disconnect();
          await made.close();
        },
      };
    });
  },
);
