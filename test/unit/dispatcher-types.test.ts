import { describe } from "vitest";
import { typePrograms } from "../support/type-programs.js";

const head = `
import type { Knex } from "knex";
import type { Kysely, Transaction } from "kysely";
import type pg from "pg";
import { z } from "zod";
import { createDispatcher, createInbox, createOutbox, createWorker, timeBudget, type InboxMessage, type OutboxMessage, type SqlExecutor } from "oncebox";
import { fromKnex, fromKysely } from "oncebox/orm";
import { fromPg, openPostgres } from "oncebox/postgres";
import { webhookPublisher } from "oncebox/publishers";
import { openSqlite } from "oncebox/sqlite";

interface Tables { readonly orders: { readonly id: number } }
declare const kysely: Kysely<Tables>;
declare const knex: Knex;
declare const pool: pg.Pool;
const db = openSqlite({ file: ":memory:" });
const inbox = createInbox(db);
const outbox = createOutbox(db);
const order = z.object({ id: z.number() });
const topics = { "order.created": order };
const typedInbox = createInbox(db, { topics });
const typedOutbox = createOutbox(db, { topics });
`;

const right = `
const ofInbox = createDispatcher({
  store: inbox,
  outbox,
  handlers: {
    plain: (message) => console.log(message.source.length + message.deliveries),
    transactional: {
      transactional: true,
      async handle(message, { tx }) {
        await outbox.enqueue({ topic: message.source, payload: "" }, { tx });
      },
    },
    annotated: (message: InboxMessage) => ({ topic: message.source, data: message.deliveries }),
    many: async ({ data, partitionKey }) => [{ topic: "t", data, partitionKey }, { topic: "u", payload: "", attributes: { a: 1 } }],
    sometimes: ({ attempt }) => (attempt > 0 ? null : { topic: "t", payload: "" }),
  },
});
await ofInbox.run(inbox, timeBudget(1));
createWorker({
  store: inbox,
  pollMs: 100,
  handlers: { t: { transactional: true, handle: async ({ source }, { tx }) => void (await outbox.enqueue({ topic: source, payload: "" }, { tx })) } },
});
createWorker({
  store: inbox,
  transaction: (work) => kysely.transaction().execute((trx) => work(fromKysely(trx), trx)),
  handlers: {
    t: {
      transactional: true,
      handle: async ({ source }, { tx }) => void (await tx.insertInto("orders").values({ id: source.length }).execute()),
    },
  },
});

const ofOutbox = createDispatcher({ store: outbox, handlers: { t: ({ id, naturalKey }) => void (id + naturalKey) } });
await ofOutbox.run(outbox, timeBudget(1));

const typed = createDispatcher({
  store: typedOutbox,
  handlers: {
    "order.created": ({ data, id }) => void (data.id.toFixed() + id),
    "order.*": ({ data }) => { const nothing: unknown = data; void nothing; },
  },
});
await typed.run(typedOutbox, timeBudget(1));
await typedOutbox.enqueue({ topic: "order.created", data: { id: 7 }, partitionKey: "k" });
await typedOutbox.enqueue([{ topic: "order.created", data: { id: 7 } }]);

createDispatcher({
  store: inbox,
  handlers: {
    "order.paid": { schema: order, timeoutMs: 5, handle: ({ data, source }) => void (data.id.toFixed() + source) },
    "order.booked": {
      schema: order,
      transactional: true,
      async handle({ data, deliveries }, { tx, signal }) {
        signal.throwIfAborted();
        await outbox.enqueue({ topic: "t", data: { id: data.id + deliveries } }, { tx });
        const native: { prepare(text: string): unknown } = tx.native;
        return [{ topic: "t", data: native }, { topic: "t", payload: "", naturalKey: "k" }];
      },
    },
  },
});

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
  handlers: { t: { transactional: true, handle: async (_message, { tx }) => void (await tx.table("orders").insert({ id: 1 })) } },
});
await inKnex.run(inbox, timeBudget(1));

createDispatcher({
  store: createInbox(openPostgres({ url: "postgres://h/d" })),
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
    t: { transactional: true, handle: async (_message, { tx }) => void (await tx.query("insert into orders (id) values ($1)", [7])) },
  },
});

createDispatcher({
  store: typedInbox,
  transaction: (work) => kysely.transaction().execute((trx) => work(fromKysely(trx), trx)),
  handlers: {
    "order.created": { transactional: true, handle: async ({ data }, { tx }) => void (await tx.insertInto("orders").values(data).execute()) },
  },
});

const ofPublishers = createDispatcher({ store: outbox, handlers: { t: webhookPublisher({ url: "https://x.example", secrets: "s" }), u: ({ id }) => void id } });
await ofPublishers.run(outbox, timeBudget(1));

const ofAny = createDispatcher({ handlers: { t: (message) => void message.topic } });
await ofAny.run(inbox, timeBudget(1));
const annotated = createDispatcher({ handlers: { t: (message: InboxMessage) => void message.source } });
await annotated.run(inbox, timeBudget(1));
const byType = createDispatcher<OutboxMessage, SqlExecutor>({ handlers: { t: ({ id }) => void id } });
await byType.run(outbox, timeBudget(1));
const { id, existing }: { id: string; existing: boolean } = await outbox.enqueueOnce({ topic: "t", data: 1, naturalKey: "7" });
const list: readonly { id: string; existing: boolean }[] = await outbox.enqueueOnce([{ topic: "t", payload: "", naturalKey: "7" }]);
await typedOutbox.enqueueOnce({ topic: "order.created", data: { id: 7 }, naturalKey: "7" });
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
    `createDispatcher({ store: outbox, handlers: { t: (message: InboxMessage) => void message.source } });`,
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
    `createDispatcher({ store: typedInbox, handlers: { "order.created": ({ data }) => void data.id.toUpperCase() } });`,
    /toUpperCase/,
  ],
  "data of a handler's own schema, of another type": [
    `createDispatcher({ store: inbox, handlers: { t: { schema: order, handle: ({ data }) => void data.id.toUpperCase() } } });`,
    /toUpperCase/,
  ],
  "data without a schema": [
    `createDispatcher({ store: inbox, handlers: { t: ({ data }) => void data.id } });`,
    /'data' is of type 'unknown'/,
  ],
  "a topic that the outbox has no schema of": [
    `await typedOutbox.enqueue({ topic: "order.cretaed", data: { id: 7 } });`,
    /"order.cretaed"' is not assignable to type '"order.created"/,
  ],
  "data that the schema of an outbox's topic does not take": [
    `await typedOutbox.enqueue({ topic: "order.created", data: { id: "7" } });`,
    /'string' is not assignable to type 'number'/,
  ],
  "a transaction on another database": [
    `declare const client: pg.Client;\nawait outbox.enqueue({ topic: "t", data: 1 }, { tx: fromPg(client) });`,
    /SqlExecutor<"postgres">' is not assignable to type 'SqlExecutor<"sqlite">/,
  ],
  "a tx in a handler that has none": [
    `createDispatcher({ store: inbox, handlers: { t: (_message, { tx }) => void tx.query } });`,
    /'tx' does not exist on type 'NonTransactionalContext'/,
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
  "a returned message without data": [
    `createDispatcher({ store: inbox, outbox, handlers: { t: () => ({ topic: "t" }) } });`,
    /data|payload/,
  ],
  "a returned message whose topic is misspelt": [
    `createDispatcher({ store: inbox, outbox, handlers: { t: async () => ({ topik: "t", data: 1 }) } });`,
    /topic/,
  ],
  "a list with something else than messages": [
    `createDispatcher({ store: inbox, outbox, handlers: { t: () => [{ topic: "t", data: 1 }, 7] } });`,
    /number/,
  ],
  "a result that is no message": [
    `createDispatcher({ store: inbox, handlers: { t: () => outbox.enqueue({ topic: "t", payload: "" }) } });`,
    /Promise<string>/,
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
