import { describe } from "vitest";
import { typePrograms } from "../support/type-programs.js";

const head = `
import type { Knex } from "knex";
import type { Kysely, Transaction } from "kysely";
import type pg from "pg";
import { z } from "zod";
import { createDispatcher, createInbox, createOutbox, createWorker, defineTopics, timeBudget, type InboxMessage, type OutboxMessage, type SqlExecutor } from "oncebox";
import { fromKnex, fromKysely } from "oncebox/orm";
import { fromPg } from "oncebox/postgres";
import { webhookPublisher } from "oncebox/publishers";
import { openSqlite } from "oncebox/sqlite";

interface Tables { readonly orders: { readonly id: number } }
declare const kysely: Kysely<Tables>;
declare const knex: Knex;
declare const pool: pg.Pool;
const db = openSqlite({ file: ":memory:" });
const inbox = createInbox(db);
const outbox = createOutbox(db);
const topics = defineTopics({ "order.created": z.object({ id: z.number() }) });
`;

const right = `
const ofInbox = createDispatcher({
  store: inbox,
  handlers: {
    plain: (message) => message.source.length + message.deliveries,
    transactional: {
      transactional: true,
      handle: (message, { tx }) => outbox.enqueue({ topic: message.source, payload: "" }, { tx }),
    },
    annotated: (message: InboxMessage) => message.source,
  },
});
await ofInbox.run(inbox, timeBudget(1));
createWorker({
  store: inbox,
  pollMs: 100,
  handlers: { t: { transactional: true, handle: ({ source }, { tx }) => outbox.enqueue({ topic: source, payload: "" }, { tx }) } },
});
createWorker({
  store: inbox,
  transaction: (work) => kysely.transaction().execute((trx) => work(fromKysely(trx), trx)),
  handlers: {
    t: {
      transactional: true,
      handle: ({ source }, { tx }) => tx.insertInto("orders").values({ id: source.length }).execute(),
    },
  },
});

const ofOutbox = createDispatcher({ store: outbox, handlers: { t: ({ id, naturalKey }) => id + naturalKey } });
await ofOutbox.run(outbox, timeBudget(1));

const typed = createDispatcher({
  store: outbox,
  handlers: topics.publishers({ "order.created": ({ data, id }) => data.id.toFixed() + id }),
});
await typed.run(outbox, timeBudget(1));

const inKysely = createDispatcher({
  store: inbox,
  transaction: (work) => kysely.transaction().execute((trx) => work(fromKysely(trx), trx)),
  handlers: {
    t: {
      transactional: true,
      async handle(message, { tx }) {
        const own: Transaction<Tables> = tx;
        await own.insertInto("orders").values({ id: message.deliveries }).execute();
      },
    },
  },
});
await inKysely.run(inbox, timeBudget(1));

const inKnex = createDispatcher({
  transaction: (work, { signal, store }) => knex.transaction((trx) => (signal.throwIfAborted(), store, work(fromKnex(trx), trx))),
  handlers: { t: { transactional: true, handle: (_message, { tx }) => tx.table("orders").insert({ id: 1 }) } },
});
await inKnex.run(inbox, timeBudget(1));

createDispatcher({
  store: inbox,
  async transaction(work) {
    const client = await pool.connect();
    try {
      await client.query("begin");
      const ran = await work(fromPg(client), client);
      await client.query("commit");
      return ran;
    } catch (error) {
      await client.query("rollback");
      throw error;
    } finally {
      client.release();
    }
  },
  handlers: {
    t: { transactional: true, handle: (_message, { tx }) => tx.query("insert into orders (id) values ($1)", [7]) },
  },
});

createDispatcher({
  store: inbox,
  transaction: (work) => kysely.transaction().execute((trx) => work(fromKysely(trx), trx)),
  handlers: topics.handlers<Transaction<Tables>>({
    "order.created": { transactional: true, handle: ({ data }, { tx }) => tx.insertInto("orders").values(data).execute() },
  }),
});

const ofPublishers = createDispatcher({ store: outbox, handlers: { t: webhookPublisher({ url: "https://x.example", secrets: "s" }), u: ({ id }) => id } });
await ofPublishers.run(outbox, timeBudget(1));

const ofAny = createDispatcher({ handlers: { t: (message) => message.topic } });
await ofAny.run(inbox, timeBudget(1));
const annotated = createDispatcher({ handlers: { t: (message: InboxMessage) => message.source } });
await annotated.run(inbox, timeBudget(1));
const byType = createDispatcher<OutboxMessage, SqlExecutor>({ handlers: { t: ({ id }) => id } });
await byType.run(outbox, timeBudget(1));
const { id, existing }: { id: string; existing: boolean } = await outbox.enqueueOnce({ topic: "t", data: 1, naturalKey: "7" });
const list: readonly { id: string; existing: boolean }[] = await outbox.enqueueOnce([{ topic: "t", payload: "", naturalKey: "7" }]);
await topics.enqueueOnce(outbox, { topic: "order.created", data: { id: 7 }, naturalKey: "7" });
export { id, existing, list };
`;

const wrong = {
  "an outbox message's field in a handler of an inbox": [
    `createDispatcher({ store: inbox, handlers: { t: (message) => message.createdAt } });`,
    /'createdAt' does not exist/,
  ],
  "an inbox message's field in a handler of an outbox": [
    `createDispatcher({ store: outbox, handlers: { t: (message) => message.source } });`,
    /'source' does not exist/,
  ],
  "handlers of the inbox for an outbox": [
    `createDispatcher({ store: outbox, handlers: topics.handlers({ "order.created": ({ data }) => data.id }) });`,
    /InboxMessage|source/,
  ],
  "publishers on an inbox": [
    `createDispatcher({ store: inbox, handlers: { t: webhookPublisher({ url: "https://x.example", secrets: "s" }) } });`,
    /InboxMessage/,
  ],
  "a run on the other kind of queue": [
    `await createDispatcher({ store: inbox, handlers: { t: (message) => message.source } }).run(outbox, timeBudget(1));`,
    /'OutboxMessage' is (missing|not assignable)/,
  ],
  "data of another type": [
    `createDispatcher({ store: inbox, handlers: topics.handlers({ "order.created": ({ data }) => data.id.toUpperCase() }) });`,
    /toUpperCase/,
  ],
  "a tx in a handler that has none": [
    `createDispatcher({ store: inbox, handlers: { t: (_message, { tx }) => tx.query } });`,
    /'tx' is possibly/,
  ],
  "the library's transaction where the adapted one belongs": [
    `createDispatcher({ store: inbox, transaction: (work) => kysely.transaction().execute((trx) => work(trx, trx)), handlers: {} });`,
    /SqlExecutor/,
  ],
  "a begin that does not return what its work returns": [
    `createDispatcher({ store: inbox, transaction: async (work) => { await knex.transaction((trx) => work(fromKnex(trx), trx)); }, handlers: {} });`,
    /void/,
  ],
  "a begin that does not wait for its work": [
    `createDispatcher({ store: inbox, transaction: (work) => knex.transaction(async (trx) => { void work(fromKnex(trx), trx); }), handlers: {} });`,
    /void/,
  ],
  "the store's transaction in a handler that gets the library's": [
    `createDispatcher({
  store: inbox,
  transaction: (work) => kysely.transaction().execute((trx) => work(fromKysely(trx), trx)),
  handlers: { t: { transactional: true, handle: (_message, { tx }) => outbox.enqueue({ topic: "t", payload: "" }, { tx }) } },
});`,
    /SqlExecutor/,
  ],
  "a table that the library's transaction does not know": [
    `createDispatcher({
  store: inbox,
  transaction: (work) => kysely.transaction().execute((trx) => work(fromKysely(trx), trx)),
  handlers: { t: { transactional: true, handle: (_message, { tx }) => tx.selectFrom("invoices").execute() } },
});`,
    /invoices/,
  ],
  "an unknown option": [`createDispatcher({ store: inbox, begin: () => {}, handlers: {} });`, /begin/],
  "enqueueOnce without a natural key": [
    `await outbox.enqueueOnce({ topic: "t", payload: "" });`,
    /naturalKey/,
  ],
  "a natural key that is no text": [
    `await outbox.enqueue({ topic: "t", payload: "", naturalKey: 7 });`,
    /number/,
  ],
} as const satisfies Record<string, readonly [string, RegExp]>;

describe("types of dispatchers", () => typePrograms({ id: "ADD-13", head, right, wrong }));
