import {
  createDispatcher,
  createInbox,
  createOutbox,
  type InboxMessage,
  type Metrics,
  migrate,
  newOwnerToken,
  type OutboxMessage,
  permanentFailure,
  timeBudget,
} from "../../../src/index.js";
import { createService, defineMessages, inProcessTransport, signal } from "../../../src/messaging/index.js";
import { functionPublisher } from "../../../src/publishers/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { measureQueue } from "../../../src/telemetry/index.js";
import { createWebhookRoute } from "../../../src/webhooks/index.js";
import { type TestClock, testClock } from "../../contract/harness.js";
import { textMember } from "../../contract/messaging/support.js";
import { gate } from "../../contract/support/gate.js";

interface Place {
  readonly db: ReturnType<typeof openSqlite>;
  readonly clock: TestClock;
  readonly metrics: Metrics;
}

/** Makes everything happen that this package measures. */
export async function measuredWork(metrics: Metrics): Promise<void> {
  const db = openSqlite({ file: ":memory:" });
  const place = { db, clock: testClock(), metrics };
  await migrate(db);
  try {
    await receiving(place);
    await handling(place);
    await stuckHandler(place);
    await lostLease(place);
    await releasing(place);
    await publishing(place);
    await betweenServices(place);
  } finally {
    await db.close();
  }
}

const inboxOf = ({ db, clock, metrics }: Place) => createInbox(db, { clock, metrics });
const budget = () => timeBudget(60_000);

async function receiving(place: Place): Promise<void> {
  const inbox = inboxOf(place);
  const secrets = [`whsec_${Buffer.alloc(24, 1).toString("base64")}`];
  const route = createWebhookRoute({
    inbox,
    metrics: place.metrics,
    sources: { bank: { scheme: "standard", secrets } },
  });
  await route(new Request("https://example.com/webhooks/bank", { method: "POST", body: "{}" }));
  const message = { source: "bank", messageId: "1", topic: "fails", payload: "{}" };
  await inbox.receive(message);
  await inbox.receive(message);
  await measureQueue(inbox, place.metrics);
}

/** A retry, a permanent failure, and a message that expires before anybody claims it. */
async function handling(place: Place): Promise<void> {
  const inbox = inboxOf(place);
  await inbox.receive({ source: "bank", messageId: "2", topic: "never", payload: "{}" });
  const expiresAt = new Date(place.clock().getTime() + 1_000);
  await inbox.receive({ source: "bank", messageId: "3", topic: "late", payload: "{}", expiresAt });
  place.clock.advance(2_000);
  await inbox.reapExpired();
  const fails = () => {
    throw new Error("out of order");
  };
  const never = () => permanentFailure("no such account");
  const { metrics } = place;
  const handlers = { fails, never };
  await createDispatcher<InboxMessage>({ handlers, metrics }).run(inbox, budget());
  place.clock.advance(120_000);
  await inbox.receive({ source: "bank", messageId: "4", topic: "unknown", payload: "{}" });
  const second = { handlers: { fails() {} }, onUnhandled: "ack", metrics } as const;
  await createDispatcher<InboxMessage>(second).run(inbox, budget());
}

async function stuckHandler(place: Place): Promise<void> {
  const inbox = inboxOf(place);
  for (const topic of ["ignores", "waits"])
    await inbox.receive({ source: "bank", messageId: topic, topic, payload: "{}" });
  const stuck = gate();
  const metrics: Metrics = {
    ...place.metrics,
    count(name, value, attributes) {
      place.metrics.count(name, value, attributes);
      if (name === "oncebox.handler.stuck") stuck.open();
    },
  };
  const ignores = { timeoutMs: 1, handle: () => stuck.promise };
  const handlers = { ignores, waits: () => stuck.promise };
  await createDispatcher<InboxMessage>({ handlers, metrics }).run(inbox, budget());
}

async function lostLease(place: Place): Promise<void> {
  const inbox = inboxOf(place);
  await inbox.receive({ source: "bank", messageId: "slow", topic: "slow", payload: "{}" });
  const slow = async () => {
    place.clock.advance(600_000);
    const owner = newOwnerToken();
    await inbox.ack(owner, await inbox.claim({ owner })); // by another worker
  };
  const { metrics } = place;
  await createDispatcher<InboxMessage>({ handlers: { slow }, metrics }).run(inbox, budget());
}

async function releasing(place: Place): Promise<void> {
  const inbox = inboxOf(place);
  for (const messageId of ["r1", "r2"])
    await inbox.receive({ source: "bank", messageId, topic: "stops", payload: "{}" });
  const stop = new AbortController();
  const options = { handlers: { stops: async () => stop.abort() }, concurrency: 1, metrics: place.metrics };
  await createDispatcher<InboxMessage>(options).run(inbox, timeBudget(60_000, stop.signal));
}

async function publishing({ db, metrics }: Place): Promise<void> {
  const outbox = createOutbox(db, { metrics });
  await outbox.enqueue({ topic: "send", payload: "{}" });
  const send = functionPublisher({
    destination: "The printer",
    breaker: { failures: 1 },
    metrics,
    publish: async () => {
      throw new Error("no paper");
    },
  });
  await createDispatcher<OutboxMessage>({ handlers: { send }, metrics }).run(outbox, budget());
}

/** A message that arrives twice, one that fails, and one that expires. */
async function betweenServices({ db, clock, metrics }: Place): Promise<void> {
  const common = { db, clock, metrics, messages: defineMessages({ Told: signal(textMember("what")) }) };
  const inventory = createService({
    ...common,
    serviceId: "inventory",
    table: "i",
    receive: { Told: () => {} },
  });
  const inProcess = inProcessTransport();
  inProcess.serve("inventory", inventory.receiver);
  const orders = createService({
    ...common,
    serviceId: "orders",
    table: "o",
    destinations: {
      inventory: { transport: inProcess },
      gone: { address: "http://127.0.0.1:9/gone", secrets: ["0123456789abcdef0123456789abcdef"] },
    },
  });
  await inventory.init();
  await orders.init();
  await orders.send.Told("inventory", { what: "news" });
  await orders.send.Told("gone", { what: "news" }, { maxRetries: 0 });
  await orders.dispatch(budget());
  const repeated = {
    messageId: "0197a3f0-0000-7000-8000-000000000001",
    correlationId: null,
    sourceServiceId: "orders",
    messageType: "Signal",
    endpoint: "Told",
    payload: { what: "news" },
    headers: {},
  } as const;
  await inventory.receiver.receive(repeated);
  await inventory.receiver.receive(repeated);
  await orders.send.Told("inventory", { what: "old news" }, { ttlMs: 1_000 });
  clock.advance(2_000);
  await orders.maintain(budget());
  await orders.close();
  await inventory.close();
}
