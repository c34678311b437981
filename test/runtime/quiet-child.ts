/**
 * Makes everything fail that the package would log, and writes what became of it to the file of its argument. With `silent`
 * every part has `logger: false`; with `default` the services have no logger.
 */
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod/mini";
import { createAdmin } from "../../src/admin/index.js";
import {
  createInbox,
  createOutbox,
  createWorker,
  migrate,
  permanentFailure,
  timeBudget,
} from "../../src/index.js";
import {
  createService,
  defineMessages,
  listen,
  type Service,
  signal,
  signEnvelope,
} from "../../src/messaging/index.js";
import { compose, idempotentHttp, inbox, startCleanup, transaction } from "../../src/middleware/index.js";
import { functionPublisher } from "../../src/publishers/index.js";
import type { PurgeOptions } from "../../src/queue/work-store.js";
import { wakeUpOnNotify } from "../../src/sql/postgres/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { createWebhookRoute } from "../../src/webhooks/index.js";
import { gate } from "../contract/support/gate.js";

const [mode = "", file = ""] = process.argv.slice(2);
const logger = false;
const secret = Buffer.alloc(24, 1).toString("base64");
const messages = defineMessages({ Approved: signal(z.object({ order: z.string() })) });
const budget = () => timeBudget(30_000);

/** A receiver that fails in every way, and a sender to it, to nobody, and by gRPC. */
async function services() {
  const quiet = mode === "silent" ? { logger: false as const } : {};
  const handled: string[] = [];
  const inventoryDb = openSqlite({ file: ":memory:" });
  const inventory = createService({
    serviceId: "inventory",
    db: inventoryDb,
    messages,
    sources: { orders: { secrets: [secret], endpoints: ["Approved"] } },
    handlerTimeoutMs: 100,
    receive: {
      Approved: async ({ order }) => {
        if (order === "throws") throw new Error("a failure of the handler");
        if (order === "refused") throw permanentFailure("no such order");
        if (order === "hangs") await new Promise(() => {});
        handled.push(order);
      },
    },
    ...quiet,
  });
  await inventory.init();
  const { receiver } = inventory;
  const listener = await listen({ address: "http://127.0.0.1:0/_rf/receive", receiver });
  const grpc = await listen({ address: "grpc://127.0.0.1:0", receiver });

  const ordersDb = openSqlite({ file: ":memory:" });
  const shared = { serviceId: "orders", db: ordersDb, messages, ...quiet };
  const gone = { address: "http://127.0.0.1:9/_rf/receive", secrets: [secret] };
  const earlier = createService({ ...shared, destinations: { gone } });
  await earlier.init();
  await earlier.send.Approved("gone", { order: "left" }); // the next version has no such destination
  const orders = createService({
    ...shared,
    destinations: {
      inventory: { address: listener.address, secrets: [secret] },
      remote: { address: grpc.address, secrets: [secret] },
      nobody: { address: "http://127.0.0.1:9/_rf/receive", secrets: [secret] },
    },
    retry: { maxRetries: 1, baseMs: 2, maxMs: 2, jitterMs: 0 },
    pollMs: 20,
    breaker: { failures: 2, openMs: 1, maxOpenMs: 1 },
    onDead() {
      throw new Error("a failure of onDead");
    },
  });
  orders.start();
  for (const order of ["throws", "refused", "hangs", "right"])
    await orders.send.Approved("inventory", { order });
  await orders.send.Approved("remote", { order: "refused" }); // its source is orders, its destination is not inventory
  for (let n = 0; n < 5; n++) await orders.send.Approved("nobody", { order: `${n}` });
  await orders.send.Approved("nobody", { order: "late" }, { ttlMs: 1 });
  const counts = await settled(orders);
  await orders.close();

  const post = (body: string) =>
    fetch(listener.address, { method: "POST", body, headers: { "content-type": "application/json" } });
  const envelope = {
    messageId: "0190a5c2-7d3e-7b1a-9c4f-2e8d6a1b3c5d",
    correlationId: null,
    sourceServiceId: "orders",
    messageType: "Signal" as const,
    endpoint: "Approved",
    payload: { order: "twice" },
    headers: {},
  };
  const signed = (key: string) =>
    signEnvelope(envelope, { destination: "inventory", secrets: [key], now: new Date() });
  const statuses = [];
  for (const body of [signed(secret), signed(secret), signed(Buffer.alloc(24, 2).toString("base64")), "{}"])
    statuses.push((await post(body)).status);
  statuses.push((await fetch(listener.address.replace("receive", "outbox/stats"))).status);
  await inventory.maintain(budget());
  await listener.close();
  await grpc.close();
  await inventoryDb.close();
  await inventory.close();
  await ordersDb.close();
  return { counts, statuses, handled: handled.toSorted() };
}

/** How the messages ended, when all of them have but the one that nobody can send. */
async function settled(orders: Pick<Service<never, never>, "maintain" | "outboxStats">) {
  for (;;) {
    await orders.maintain(budget());
    const { Pending, Sending, ...ended } = (await orders.outboxStats()).counts;
    if (Pending + Sending === 1) return ended;
    await sleep(20);
  }
}

/** Stores, dispatchers, middleware and routes, each with what it would warn of. */
async function others() {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const store = createInbox(db, { logger, onDead: () => Promise.reject(new Error("a failure of onDead")) });
  const content = { source: "s", messageId: "1", topic: "known", payload: "{}" };
  const hash = (text: string) => createHash("sha256").update(text).digest();
  await store.receive({ ...content, hash: hash("a") });
  const conflict = await store.receive({ ...content, hash: hash("b") });
  for (const topic of ["throws", "hangs", "unknown"])
    await store.receive({ ...content, messageId: topic, topic });
  const wakeUp = wakeUpOnNotify({ url: "postgres://nobody@127.0.0.1:1/none", kind: "inbox", logger });
  const worker = createWorker({
    store,
    wakeUp,
    logger,
    drainMs: 100,
    timeoutMs: 50,
    retry: { maxAttempts: 1 },
    onUnhandled: "dead",
    handlers: {
      known() {},
      throws() {
        throw new Error("a failure of the handler");
      },
      hangs: () => new Promise(() => {}),
    },
  });
  while ((await store.stats()).counts.Dead < 3) await sleep(10);
  await worker.stop();

  const within = transaction(db);
  const handle = compose([within, inbox({ subscriber: "once", logger })], async () => {});
  for (let n = 0; n < 2; n++) await handle({ messageId: "1" });
  const pay = idempotentHttp(
    { transaction: within, subscriber: "api", scope: "all callers", logger },
    async () => new Response("paid"),
  );
  const headers = { "idempotency-key": '"1"' };
  const paid = [];
  for (const body of ["1", "2"])
    paid.push((await pay(new Request("http://127.0.0.1/", { method: "POST", headers, body }))).status);

  const outbox = createOutbox(db, { logger });
  const admin = createAdmin({ stores: { inbox: store, outbox }, tokens: "alice:0123456789abcdef", logger });
  const refused = (await admin.fetch(new Request("http://127.0.0.1/_oncebox/inbox/stats"))).status;
  const route = createWebhookRoute({
    inbox: store,
    logger,
    sources: { stripe: { scheme: "stripe", secrets: ["whsec_0123456789abcdef"] } },
  });
  const forged = new Request("http://127.0.0.1/webhooks/stripe", {
    method: "POST",
    headers: { "content-type": "application/json", "stripe-signature": "t=1,v1=00" },
    body: "{}",
  });
  const rejected = (await route(forged)).status;

  const publish = functionPublisher({
    destination: "a queue",
    logger,
    breaker: { failures: 1 },
    publish: () => Promise.reject(new Error("away")),
  });
  const message = { id: "1", messageId: "1", topic: "t", payload: "{}", headers: {}, correlationId: null };
  const published = await publish(message, { signal: new AbortController().signal }).catch(() => "failed");

  await db.close();
  const failed = gate();
  const purgeDone = async (options: PurgeOptions) => {
    setImmediate(failed.open);
    return outbox.purgeDone(options);
  };
  const cleanup = startCleanup({ stores: [{ ...outbox, purgeDone }], logger });
  await failed.promise;
  await cleanup.stop();
  return { conflict, paid, refused, rejected, published };
}

const result = { services: await services(), ...(mode === "silent" ? { others: await others() } : {}) };
await writeFile(file, JSON.stringify(result));
