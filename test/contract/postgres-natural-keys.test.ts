import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import {
  createDispatcher,
  createInbox,
  createOutbox,
  type Database,
  migrate,
  type Outbox,
} from "../../src/index.js";
import { fromPg, openPostgres } from "../../src/sql/postgres/index.js";
import { testBudget } from "./dispatch/support.js";

const url = inject("postgresUrl");
const schema = `natural_keys_${randomUUID().slice(0, 8)}`;
const once = (naturalKey: string) => ({ topic: "t", payload: "", naturalKey });

let db: Database;
let outbox: Outbox;
let client: pg.Client;
const raw = (text: string) => db.driver.query({ name: "raw", text, unprepared: true }, {});

beforeAll(async () => {
  db = openPostgres({ url, maxConnections: 10 });
  await migrate(db, { schema });
  outbox = createOutbox(db, { schema, logger: false });
  client = new pg.Client(url);
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await raw(`drop schema ${schema} cascade`);
  await db.close();
});

it("ADD-18 a repeatable read that is older than the known message fails with 40001 instead of waiting for ever", async () => {
  await client.query("begin isolation level repeatable read");
  await client.query(`select from ${schema}.outbox_messages`);
  await outbox.enqueueOnce(once("newer"));
  const call = outbox.enqueueOnce(once("newer"), { tx: fromPg(client) });
  await expect(call).rejects.toMatchObject({ code: "40001" });
  await client.query("rollback");
});

it("ADD-18 a repeatable read that still sees a deleted message adds a new one, and returns it as new", async () => {
  const first = await outbox.enqueueOnce(once("deleted"));
  await client.query("begin isolation level repeatable read");
  await client.query(`select from ${schema}.outbox_messages`);
  await raw(`delete from ${schema}.outbox_messages where natural_key = 'deleted'`);
  const second = await outbox.enqueueOnce(once("deleted"), { tx: fromPg(client) });
  await client.query("commit");
  expect(second.existing).toBe(false);
  expect(second.id).not.toBe(first.id);
  expect(await outbox.enqueueOnce(once("deleted"))).toEqual({ id: second.id, existing: true });
});

it("ADD-01 ADD-18 calls with the keys in opposite orders, with partition keys, leave one message for each", async () => {
  const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
  const calls = Array.from({ length: 12 }, (_, index) => {
    const named = index % 2 === 0 ? keys : keys.toReversed();
    return outbox.enqueueOnce(named.map((key) => ({ ...once(key), partitionKey: "p" })));
  });
  const all = (await Promise.all(calls)).flat();
  expect(all.filter(({ existing }) => !existing)).toHaveLength(20);
  expect(new Set(all.map(({ id }) => id)).size).toBe(20);
});

it("ADD-18 a call whose known message is deleted meanwhile adds its own or returns another's", async () => {
  let isDeleting = true;
  const deleting = (async () => {
    while (isDeleting) await raw(`delete from ${schema}.outbox_messages where natural_key = 'hot'`);
  })();
  const calls = await Promise.all(Array.from({ length: 30 }, () => outbox.enqueueOnce(once("hot"))));
  isDeleting = false;
  await deleting;
  const added = new Set(calls.filter(({ existing }) => !existing).map(({ id }) => id));
  for (const { id } of calls) expect(added.has(id)).toBe(true);
});

it("ADD-18 ADD-21 a returned natural key that an open transaction holds delays no other acknowledgement", async () => {
  const inbox = createInbox(db, { schema, logger: false });
  for (const messageId of ["plain", "free", "held"])
    await inbox.receive({ source: "s", messageId, topic: "t", payload: "" });
  await client.query("begin");
  await outbox.enqueueOnce(once("held"), { tx: fromPg(client) });
  const handled: string[] = [];
  const dispatcher = createDispatcher({
    store: inbox,
    outbox,
    handlers: {
      t({ messageId }) {
        handled.push(messageId);
        return messageId === "plain" ? undefined : once(messageId);
      },
    },
    settleTimeoutMs: 200,
    logger: false,
  });
  const run = dispatcher.run(inbox, testBudget());
  const isDone = async (messageId: string) => (await inbox.get({ source: "s", messageId }))?.state === "Done";
  await expect.poll(() => isDone("plain")).toBe(true);
  await expect.poll(() => isDone("free"), { timeout: 10_000 }).toBe(true);
  expect(await isDone("held")).toBe(false);
  await client.query("commit");
  expect(await run).toMatchObject({ acked: 3, lost: 0 });
  expect(handled.sort()).toEqual(["free", "held", "plain"]);
});
