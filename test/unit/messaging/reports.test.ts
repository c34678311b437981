import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { type Metrics, timeBudget } from "../../../src/index.js";
import {
  createService,
  defineMessages,
  listen,
  type ServiceOptions,
  signal,
  signEnvelope,
} from "../../../src/messaging/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { testClock } from "../../contract/harness.js";
import { fieldsOf, type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";

const messages = defineMessages({ OrderApproved: signal(z.object({ orderId: z.string() })) });
const secret = Buffer.alloc(24, 1).toString("base64");
const payload = { orderId: "secret-order" };

/** The lines of section 11.3, with our texts for them. Each placeholder is a field. */
const documentLines: readonly (readonly [LogLine["level"], string, string])[] = [
  ["info", "Outbox: Message {MessageId} enqueued for {Destination}/{Endpoint}", "Outbox: message enqueued"],
  [
    "info",
    "Outbox: Message {MessageId} sent successfully ({DurationMs}ms)",
    "Outbox: message sent successfully",
  ],
  [
    "warn",
    "Outbox: Message {MessageId} send failed, retry {RetryCount}/{MaxRetries}: {Error}",
    "Outbox: message send failed",
  ],
  [
    "error",
    "Outbox: Message {MessageId} permanently failed after {MaxRetries} retries",
    "Outbox: message permanently failed",
  ],
  ["info", "Inbox: Message {MessageId} processed from {SourceServiceId}", "Inbox: message processed"],
  ["warn", "Inbox: Duplicate {MessageId} detected from {SourceServiceId}", "Inbox: duplicate detected"],
  [
    "warn",
    "Inbox: HMAC verification failed for {MessageId} from {SourceServiceId}",
    "Inbox: HMAC verification failed",
  ],
];

/** The metrics of section 11.1, with the names beside them, and what the run below makes of each. */
const documentMetrics = [
  ["gauge", "rf_outbox_pending_count", "oncebox.messages.pending", [1]],
  ["duration", "rf_outbox_send_duration_ms", "messaging.client.operation.duration", 4],
  ["histogram", "rf_outbox_retry_count", "oncebox.messages.retries", [1, 1]],
  ["count", "rf_outbox_failed_count", "oncebox.messages.failed", [1]],
  ["count", "rf_outbox_expired_count", "oncebox.messages.expired", [1]],
  ["count", "rf_inbox_duplicate_count", "oncebox.messages.duplicates", [1]],
  ["duration", "rf_inbox_process_duration_ms", "messaging.process.duration", 1],
  ["gauge", "rf_inbox_size", "oncebox.messages.inbox_size", [1]],
] as const;

interface Measurement {
  readonly kind: string;
  readonly name: string;
  readonly value: number;
}

function recordingMetrics(into: Measurement[]): Required<Metrics> {
  const at = (kind: string) => (name: string, value: number) => void into.push({ kind, name, value });
  return { count: at("count"), duration: at("duration"), gauge: at("gauge"), histogram: at("histogram") };
}

/** Two services on HTTP, of which each event of the document happens once. */
async function everyEvent(metrics: (into: Measurement[]) => Metrics = recordingMetrics) {
  const log: LogLine[] = [];
  const measured: Measurement[] = [];
  const clock = testClock();
  const shared = { messages, clock, logger: recordingLogger(log), retry: { maxRetries: 1, jitterMs: 0 } };
  const open = async (options: Omit<ServiceOptions<typeof messages>, "db" | "messages">) => {
    const db = openSqlite({ file: ":memory:" });
    const service = createService({ ...shared, ...options, db });
    await service.init();
    onTestFinished(async () => {
      await service.close();
      await db.close();
    });
    return service;
  };
  const inventory = await open({
    serviceId: "inventory",
    sources: { orders: { secrets: [secret], endpoints: "*" } },
    receive: { OrderApproved: () => {} },
    metrics: metrics(measured),
  });
  const answers: ((response: Response) => Response)[] = [];
  const unavailable = () => new Response(null, { status: 503 });
  let forwarding = true;
  const listener = await listen({
    address: "http://127.0.0.1:0/_rf/receive",
    fetch: async (request) => {
      if (!forwarding) return unavailable();
      const response = await inventory.receiver.fetch(request);
      return (answers.shift() ?? ((one: Response) => one))(response);
    },
  });
  onTestFinished(() => listener.close());
  let dead = 0;
  const orders = await open({
    serviceId: "orders",
    destinations: { inventory: { address: listener.address, secrets: [secret] } },
    onDead: () => void dead++,
    breaker: false,
    metrics: metrics(measured),
  });
  const send = (ttlMs?: number) => orders.send.OrderApproved("inventory", payload, { ttlMs });
  const attempt = async () => {
    await orders.dispatch(timeBudget(60_000));
    clock.advance(2_000);
  };

  answers.push(unavailable); // handled, and its sender does not learn of it
  const sent = await send();
  await attempt();
  await attempt();
  forwarding = false;
  const failed = await send();
  await attempt();
  await attempt();
  const expired = await send(1_000);
  clock.advance(1_000);
  await attempt();
  await expect.poll(() => dead).toBe(2);
  const pending = await send();
  const forged = signEnvelope(
    {
      messageId: sent,
      correlationId: null,
      sourceServiceId: "orders",
      messageType: "Signal",
      endpoint: "OrderApproved",
      payload,
      headers: {},
    },
    { destination: "inventory", secrets: [Buffer.alloc(24, 2).toString("base64")], now: new Date() },
  );
  await inventory.receiver.fetch(
    new Request("http://127.0.0.1/_rf/receive", { method: "POST", body: forged }),
  );
  await orders.maintain(timeBudget(60_000));
  const ofOrders = measured.length;
  await inventory.maintain(timeBudget(60_000));
  return { log, measured, ofOrders, ids: { sent, failed, expired, pending } };
}

describe("what a service reports", () => {
  it("MSG-15 each log line of the document is written with its level, words and fields, and no payload", async () => {
    const { log, ids } = await everyEvent();
    for (const [level, template, text] of documentLines) {
      const lines = fieldsOf(log, level, text);
      expect(lines.length, text).toBeGreaterThan(0);
      const fields = [...template.matchAll(/\{(\w)(\w*)\}/g)].map(
        ([, first, rest]) => first!.toLowerCase() + rest,
      );
      for (const line of lines) expect(Object.keys(line), text).toEqual(expect.arrayContaining(fields));
      const words = template.replace(/\{\w+\}/g, "").toLowerCase();
      for (const word of text.toLowerCase().match(/\w+/g)!) expect(words, text).toContain(word);
      expect(new Set(log.filter(({ message }) => message === text).map((line) => line.level))).toEqual(
        new Set([level]),
      );
    }
    const idsOf = (text: string) =>
      log.filter(({ message }) => message === text).map(({ fields }) => fields.messageId);
    expect(idsOf("Outbox: message enqueued")).toEqual([ids.sent, ids.failed, ids.expired, ids.pending]);
    expect(idsOf("Outbox: message sent successfully")).toEqual([ids.sent]);
    expect(idsOf("Outbox: message send failed")).toEqual([ids.sent, ids.failed]);
    expect(idsOf("Outbox: message permanently failed")).toEqual([ids.failed]);
    expect(idsOf("Outbox: message expired")).toEqual([ids.expired]);
    expect(idsOf("Inbox: message processed")).toEqual([ids.sent]);
    expect(idsOf("Inbox: duplicate detected")).toEqual([ids.sent]);
    expect(fieldsOf(log, "warn", "Inbox: HMAC verification failed")).toEqual([
      { service: "inventory", messageId: ids.sent, sourceServiceId: "orders", reason: "signature wrong" },
    ]);
    expect(JSON.stringify(log)).not.toContain("secret-order");
  });

  it("MSG-13 MSG-20 each metric of the document is measured under its name and under ours", async () => {
    const { measured, ofOrders } = await everyEvent();
    for (const [kind, name, own, expected] of documentMetrics) {
      // each service measures the sizes of both its tables
      const some = kind === "gauge" ? ofService(measured, ofOrders, name) : measured;
      for (const one of [name, own]) {
        const values = some.filter((measurement) => measurement.name === one);
        expect(new Set(values.map((measurement) => measurement.kind)), one).toEqual(new Set([kind]));
        if (typeof expected === "number") expect(values, one).toHaveLength(expected);
        else
          expect(
            values.map(({ value }) => value),
            one,
          ).toEqual(expected);
      }
    }
  });

  it("MSG-13 a metrics sink without histograms counts the retries", async () => {
    const { measured } = await everyEvent((into) => {
      const { count, duration } = recordingMetrics(into);
      return { count, duration };
    });
    const retries = measured.filter(({ name }) => name === "rf_outbox_retry_count");
    expect(retries.map(({ kind, value }) => [kind, value])).toEqual([
      ["count", 1],
      ["count", 1],
    ]);
  });
});

/** The outbox's gauge is that of `orders`, the inbox's that of `inventory`. */
const ofService = (measured: readonly Measurement[], ofOrders: number, name: string) =>
  name.startsWith("rf_outbox") ? measured.slice(0, ofOrders) : measured.slice(ofOrders);
