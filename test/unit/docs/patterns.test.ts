import { describe, expect, it } from "vitest";
import { printedBy, programBehind } from "../../support/run-programs.js";

/** The services run in one process, each on a SQLite file of its own. */
const common = `
import { setTimeout as pause } from "node:timers/promises";
import { type Database, statement } from "oncebox";
import { createService, inProcessTransport, type Transport } from "oncebox/messaging";
import { openSqlite } from "oncebox/sqlite";

const run = (db: Database, text: string) => db.driver.query(statement(text, text), {});
async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < 1_000; turn++) {
    if (await isSo()) return;
    await pause(20);
  }
  throw new Error("It does not end.");
}
const inProcess = inProcessTransport();
const failed = { acknowledged: false, duplicateDetected: false, permanent: true, error: "bad luck" };
`;

/** Payments are unlucky, as the order's name says. */
const useOfSaga = `${common}
import { createOrders, createStock, paymentMessages } from "./saga.mjs";

const open = async (name: string, table: string) => {
  const db = openSqlite({ file: \`\${name}.db\` });
  await run(db, \`create table \${table} (id text primary key, state text not null)\`);
  return db;
};
const ordersDb = await open("orders", "sagas");
const stockDb = await open("stock", "reservations");
const paymentsDb = await open("payments", "charges");

/** "lost" is handled and its acknowledgement is lost; "refused" does not arrive. Neither is tried again. */
const unlucky: Transport = {
  ...inProcess,
  async send(message, ...rest) {
    if (message.endpoint !== "ChargeCard") return inProcess.send(message, ...rest);
    if (message.correlationId === "refused") return failed;
    const response = await inProcess.send(message, ...rest);
    return message.correlationId === "lost" ? failed : response;
  },
};
const destinations = { stock: { transport: inProcess }, payments: { transport: unlucky } };
const stock = createStock(stockDb, { orders: { secrets: ["Yt1Wq0m2bZ4cQ9n8Xr5sVg=="], endpoints: "*" } });
const upsert = "insert into charges values (:id, :state) on conflict (id) do update set state = :state";
const payments = createService({
  serviceId: "payments",
  db: paymentsDb,
  messages: paymentMessages,
  receive: {
    ChargeCard: async ({ orderId }, { tx }) => {
      if (orderId === "declined") return { charged: false };
      await tx.query(statement("charge", upsert), { id: orderId, state: "charged" });
      return { charged: true };
    },
    RefundCard: ({ orderId }, { tx }) => tx.query(statement("refund", upsert), { id: orderId, state: "refunded" }),
  },
});
inProcess.serve("stock", stock.receiver);
inProcess.serve("payments", payments.receiver);

const orders = createOrders(ordersDb, destinations);
/** The same service with steps that expire at once. */
const hurried = createOrders(ordersDb, destinations, { ttlMs: 1 });
for (const { init } of [stock, payments, orders.service]) await init();
await run(stockDb, "insert into reservations values ('sold out', 'released')");

/** Waits until no saga waits for anything, and everything is delivered. */
const settled = () =>
  until(async () => {
    const open = await run(ordersDb, "select id from sagas where state not in ('done', 'cancelled')");
    const { counts } = await orders.service.outboxStats();
    return open.length + counts.Pending + counts.Sending === 0;
  });

const sent = async () => (await orders.service.outboxStats()).counts;
await hurried.place("expired");
const placedAt = Date.now();
while (Date.now() <= placedAt + 1) await pause(1);
orders.service.start();
for (const id of ["good", "declined", "sold out", "lost", "refused"]) await orders.place(id);
await settled();
const afterOnDead = await sent();
await orders.compensateAll();
await settled();
const afterCompensateAll = await sent();

// As if the process had ended before onDead was called.
await run(ordersDb, "update sagas set state = 'charging' where id = 'lost'");
await run(paymentsDb, "update charges set state = 'charged' where id = 'lost'");
await orders.compensateAll();
await settled();

// The expired reservation is sent again, after it was released.
const { messages: expired } = await orders.service.list({ state: "Expired" });
for (const { messageId } of expired) await orders.service.retry(messageId);
await settled();

await orders.service.close();
const states = async (db: Database, table: string) =>
  Object.fromEntries((await run(db, \`select id, state from \${table}\`)).map(({ id, state }) => [id, state]));
console.log(JSON.stringify({
  afterOnDead,
  afterCompensateAll,
  expired: expired.map(({ endpoint, correlationId }) => [endpoint, correlationId]),
  sagas: await states(ordersDb, "sagas"),
  reservations: await states(stockDb, "reservations"),
  charges: await states(paymentsDb, "charges"),
}));
`;

const jobs = 20;

/** Each command is delivered twice at once. Of every second job, west's acknowledgement is lost, and its response comes late or not. */
const useOfFanOut = `${common}
import { createBuyer, messages } from "./fan-out.mjs";

const unlucky: Transport = {
  ...inProcess,
  async send(message, ...rest) {
    const [response] = await Promise.all([inProcess.send(message, ...rest), inProcess.send(message, ...rest)]);
    const isLost = message.messageType === "Command" && Number(message.correlationId) % 2 === 1;
    return isLost && rest[0].serviceId === "west" ? failed : response;
  },
};
const db = openSqlite({ file: "buyer.db" });
await run(db, "create table jobs (id text primary key, missing integer not null)");
await run(db, "create table parts (job_id text, part text, price real, is_settled integer not null, primary key (job_id, part))");
await run(db, "create table compared (job_id text)");
const destination = { transport: unlucky };
const buyer = createBuyer(db, { north: destination, south: destination, west: destination }, async (jobId, tx) => {
  await tx.query(statement("compared", "insert into compared values (:jobId)"), { jobId });
});
const suppliers = ["north", "south", "west"].map((serviceId) =>
  createService({
    serviceId,
    db: openSqlite({ file: \`\${serviceId}.db\` }),
    messages,
    destinations: { buyer: destination }, // so the response comes as a message, too
    receive: { AskPrice: async ({ item }) => ({ price: item.length }) },
  }),
);
const services = [buyer.service, ...suppliers];
for (const { serviceId, init, receiver, start } of services) {
  inProcess.serve(serviceId, receiver);
  await init();
  start();
}
await Promise.all(Array.from({ length: ${jobs} }, (_, job) => buyer.compare(String(job), "chair")));
await until(async () => {
  const open = await run(db, "select id from jobs where missing <> 0");
  const all = await Promise.all(services.map(({ outboxStats }) => outboxStats()));
  return open.length === 0 && all.every(({ counts }) => counts.Pending + counts.Sending === 0);
});
for (const { close } of services) await close();
const [counted] = await run(db, "select count(*) as times, count(distinct job_id) as jobs from compared");
const [wrong] = await run(db, "select count(*) as jobs from jobs where missing <> 0");
const [settled] = await run(db, "select count(*) as parts, count(price) as prices from parts where is_settled = 1");
const { counts } = await buyer.service.outboxStats();
console.log(JSON.stringify({ counted, wrong, settled, failed: counts.Failed }));
`;

describe("docs/patterns.md", () => {
  it("MSG-04 MSG-05 MSG-07 has a saga that undoes what was done, after a negative response and after a dead command", async () => {
    const saga = programBehind("## Saga and compensation", "docs/patterns.md");
    const cancelled = "cancelled";
    const released = "released";
    const counts = { Pending: 0, Sending: 0, Sent: 13, Failed: 2, Expired: 1 };
    expect(await printedBy({ "saga.mts": saga, "use.mts": useOfSaga })).toEqual({
      afterOnDead: counts,
      afterCompensateAll: counts,
      expired: [["ReserveStock", "expired"]],
      sagas: {
        good: "done",
        declined: cancelled,
        "sold out": cancelled,
        lost: cancelled,
        refused: cancelled,
        expired: cancelled,
      },
      reservations: {
        good: "reserved",
        declined: released,
        "sold out": released,
        lost: released,
        refused: released,
        expired: released,
      },
      charges: { good: "charged", lost: "refunded", refused: "refunded" },
    });
  });

  it("MSG-05 MSG-07 has a fan-in that continues once, however often and late the responses come", async () => {
    const program = programBehind("## Fan-out and fan-in", "docs/patterns.md");
    const { settled, ...found } = (await printedBy({
      "fan-out.mts": program,
      "use.mts": useOfFanOut,
    })) as { settled: { parts: number; prices: number } };
    expect(found).toEqual({ counted: { times: jobs, jobs }, wrong: { jobs: 0 }, failed: jobs / 2 });
    expect(settled.parts).toBe(3 * jobs);
    // Without a price are only parts of west that died before their response came.
    expect(settled.prices).toBeGreaterThanOrEqual(3 * jobs - jobs / 2);
  });
});
