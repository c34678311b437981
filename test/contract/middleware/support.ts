import { describe } from "vitest";
import { createInbox, type Inbox } from "../../../src/inbox/inbox.js";
import {
  type InboxMiddleware,
  inbox,
  type OutboxMiddleware,
  outbox,
} from "../../../src/middleware/inbox-outbox.js";
import { type TransactionMiddleware, transaction } from "../../../src/middleware/transaction.js";
import { createOutbox, type Outbox } from "../../../src/outbox/outbox.js";
import { type SqlExecutor, type SqlStatement, statement } from "../../../src/sql/driver.js";
import { migrate } from "../../../src/sql/migrate.js";
import { type ContractHarness, type TestDatabase, useDatabase } from "../harness.js";
import { inSchemaOf } from "../support/database.js";

/** A table of orders, with middleware and stores on tables of their own. */
export interface Shop {
  readonly database: TestDatabase;
  readonly transaction: TransactionMiddleware;
  /** The same inbox table for any subscriber. */
  inboxOf(subscriber: string): InboxMiddleware;
  readonly outbox: OutboxMiddleware;
  readonly inboxStore: Inbox;
  readonly outboxStore: Outbox;
  readonly names: { readonly schema?: string; readonly inbox: string; readonly outbox: string };
  readonly insertOrder: SqlStatement;
  /** Ids of the stored orders. */
  orders(): Promise<readonly string[]>;
  /** Payloads that wait in the outbox. */
  outgoing(): Promise<readonly string[]>;
}

interface Shops {
  database(): TestDatabase;
  shop(): Promise<Shop>;
}

/** Tests with shops on one database. */
export function describeShops(harness: ContractHarness, title: string, tests: (shops: Shops) => void): void {
  describe(`${harness.name} middleware: ${title}`, () => {
    const database = useDatabase(harness);
    let shops = 0;
    tests({ database, shop: () => makeShop(database(), ++shops) });
  });
}

export const insertInto = (table: string): SqlStatement =>
  statement("insert order", `insert into ${table} (id) values (:id)`);

async function makeShop(database: TestDatabase, number: number): Promise<Shop> {
  const { db } = database;
  const schema = inSchemaOf(database);
  const names = { ...schema, inbox: `ShopInbox${number}`, outbox: `ShopOutbox${number}` };
  await migrate(db, names);
  const table = ordersTable(database, number);
  // ids that differ only in case are different orders, whatever the database's default collation is
  const collation = db.dialect.name === "sqlserver" ? " collate Latin1_General_100_BIN2" : "";
  await database.raw(`create table ${table} (id varchar(100)${collation} not null primary key)`);
  const inboxStore = createInbox(db, { ...schema, table: names.inbox });
  const outboxStore = createOutbox(db, { ...schema, table: names.outbox });
  return {
    database,
    transaction: transaction(db),
    inboxOf: (subscriber) => inbox({ subscriber, ...schema, table: names.inbox }),
    outbox: outbox({ ...schema, table: names.outbox }),
    inboxStore,
    outboxStore,
    names,
    insertOrder: insertInto(table),
    orders: async () =>
      (await database.raw(`select id from ${table} order by id`)).map((row) => String(row.id)),
    outgoing: async () =>
      (await outboxStore.list({ limit: 1_000 })).messages.map((message) => message.payload),
  };
}

const ordersTable = (database: TestDatabase, number: number): string =>
  database.schema === undefined ? `orders${number}` : `${database.schema}.orders${number}`;

export const insertOrder = async (shop: Shop, tx: SqlExecutor | undefined, id: string): Promise<void> => {
  if (tx === undefined) throw new Error("There is no transaction to join.");
  await tx.query(shop.insertOrder, { id });
};
