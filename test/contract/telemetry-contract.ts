import { context, trace } from "@opentelemetry/api";
import type { ReadableSpan, SpanProcessor } from "@opentelemetry/sdk-trace-base";
import { describe, expect, it } from "vitest";
import { openJobs } from "../../src/app/jobs.js";
import { readEnvironment } from "../../src/config/environment.js";
import { type AppDefinition, createOutbox, defineApp, migrate, timeBudget } from "../../src/index.js";
import { createService, defineMessages, inProcessTransport, signal } from "../../src/messaging/index.js";
import { functionPublisher, type PublishedMessage } from "../../src/publishers/index.js";
import { openTelemetry } from "../../src/telemetry/index.js";
import { signWebhook } from "../../src/webhooks/index.js";
import { standard } from "../../src/webhooks/presets/standard.js";
import { openTelemetrySdk, type Sdk, spanText, useContextManager } from "../support/open-telemetry-sdk.js";
import { type ContractHarness, type TestDatabase, useDatabase } from "./harness.js";
import { textMember } from "./messaging/support.js";
import { inSchemaOf } from "./support/database.js";

const secret = `whsec_${Buffer.from("a secret of the provider").toString("base64")}`;
const payload = JSON.stringify({ type: "invoice.paid", card: "4242-4242-4242" });
const providerContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** One trace from the webhook to what is sent, on any database. */
export function telemetryContract(harness: ContractHarness): void {
  describe(`${harness.name} telemetry`, () => {
    const database = useDatabase(harness);
    useContextManager();

    it("ADD-05 one trace shows a webhook, its handler, the outbox and the publisher", async () => {
      const sdk = openTelemetrySdk();
      const app = await appOn(database(), sdk, "whole");
      expect((await app.post()).status).toBe(200);
      await app.dispatch();
      const [webhook, received, publishing, sending] = spansInOrder(sdk);
      expect([webhook, received, publishing, sending].map((span) => span?.name)).toEqual([
        "webhook bank",
        "process bank.invoice.paid",
        "process receipt.send",
        "send receipt.send",
      ]);
      expect(webhook!.parentSpanContext).toBeUndefined();
      expect(received!.parentSpanContext?.spanId).toBe(idOf(webhook));
      expect(received!.links.map((link) => link.context.spanId)).toEqual([idOf(webhook)]);
      expect(publishing!.parentSpanContext?.spanId).toBe(idOf(received));
      expect(sending!.parentSpanContext?.spanId).toBe(idOf(publishing));
      expect(new Set(sdk.spans().map((span) => span.spanContext().traceId)).size).toBe(1);
      const { traceId, spanId } = sending!.spanContext();
      expect(app.published.map(({ headers }) => headers)).toEqual([
        { traceparent: `00-${traceId}-${spanId}-01` },
      ]);
    });

    it("ADD-05 no span has a payload, a secret or a partition key", async () => {
      const sdk = openTelemetrySdk();
      const app = await appOn(database(), sdk, "private");
      await app.post({ signature: "v1,AAAA" });
      await app.post();
      await app.dispatch();
      expect(sdk.spans().length).toBe(5);
      for (const text of sdk.spans().map(spanText)) {
        expect(text).not.toContain("4242-4242");
        expect(text).not.toContain(secret.slice(6));
        expect(text).not.toContain("customer-7");
      }
    });

    it("ADD-05 a provider's trace context becomes a link only", async () => {
      const sdk = openTelemetrySdk();
      const app = await appOn(database(), sdk, "provider");
      await app.post({ traceparent: providerContext });
      const [webhook] = sdk.spans();
      expect(webhook!.parentSpanContext).toBeUndefined();
      expect(webhook!.links.map(({ context: { traceId } }) => traceId)).toEqual([
        providerContext.split("-")[1],
      ]);
      const [stored] = (await app.inbox.list()).messages;
      expect(stored!.headers?.traceparent).toContain(idOf(webhook));
    });

    it("ADD-05 a failed handler is an error of its span, and the retry is in the same trace", async () => {
      const sdk = openTelemetrySdk();
      let calls = 0;
      const app = await appOn(database(), sdk, "retry", {
        inbox: { retry: { baseMs: 1, maxMs: 1, jitterMs: 0 } },
        handlers: {
          "bank.invoice.paid": () => {
            if (++calls === 1) throw new TypeError(`cannot book ${payload}`);
          },
        },
      });
      await app.post();
      while (calls < 2) await app.dispatch();
      const attempts = sdk.spans().filter(({ name }) => name === "process bank.invoice.paid");
      expect(attempts.map(({ attributes }) => attributes["oncebox.attempt"])).toEqual([0, 1]);
      expect(attempts.map(({ attributes }) => attributes["error.type"])).toEqual(["TypeError", undefined]);
      expect(new Set(attempts.map((span) => span.spanContext().traceId)).size).toBe(1);
      expect(spanText(attempts[0]!)).not.toContain("4242-4242");
    });

    it("ADD-05 a trace context in the headers of the caller is not replaced", async () => {
      const sdk = openTelemetrySdk();
      const { tracing, metrics } = openTelemetry(sdk.options);
      const options = { ...inSchemaOf(database()), table: "own_context" };
      await migrate(database().db, { ...inSchemaOf(database()), outbox: options.table, inbox: false });
      const outbox = createOutbox(database().db, { ...options, tracing, metrics });
      const span = sdk.tracer.startSpan("caller");
      const ids = await context.with(trace.setSpan(context.active(), span), () =>
        outbox.enqueue([
          { topic: "t", payload: "", headers: { TraceParent: providerContext } },
          { topic: "t", payload: "", headers: { colour: "red" } },
        ]),
      );
      const headers = await Promise.all(ids.map(async (id) => (await outbox.get({ id }))!.headers));
      expect(headers[0]).toEqual({ TraceParent: providerContext });
      expect(headers[1]).toEqual({ colour: "red", traceparent: expect.stringContaining(idOf(span)) });
    });

    it("ADD-05 a throwing SDK loses no message", async () => {
      const broken = (): never => {
        throw new Error("the exporter is broken");
      };
      let starts = 0;
      const processor: SpanProcessor = {
        onStart: () => void (++starts % 2 === 0 && broken()), // spans that cannot be started, and spans that cannot be ended
        onEnd: broken,
        forceFlush: async () => {},
        shutdown: async () => {},
      };
      const sdk = openTelemetrySdk({ processors: [processor] });
      const instrument = () => ({ add: broken, record: broken });
      const meter = { createCounter: instrument, createGauge: instrument, createHistogram: instrument };
      const app = await appOn(
        database(),
        { ...sdk, options: { ...sdk.options, meter: meter as never } },
        "broken",
      );
      for (let number = 1; number <= 20; number++) expect((await app.post()).status).toBe(200);
      await app.dispatch();
      expect(app.published).toHaveLength(20);
      expect((await app.inbox.stats()).counts.Done).toBe(20);
      expect((await app.outbox.stats()).counts.Done).toBe(20);
    });

    it("ADD-05 the trace continues in the service that receives a message", async () => {
      const sdk = openTelemetrySdk();
      const messages = defineMessages({ OrderApproved: signal(textMember("orderId")) });
      const common = {
        db: database().db,
        ...inSchemaOf(database()),
        messages,
        ...openTelemetry(sdk.options),
      };
      const inventory = createService({
        ...common,
        serviceId: "inventory",
        table: "traced_inventory",
        receive: { OrderApproved: () => {} },
      });
      const inProcess = inProcessTransport();
      inProcess.serve("inventory", inventory.receiver);
      const orders = createService({
        ...common,
        serviceId: "orders",
        table: "traced_orders",
        destinations: { inventory: { transport: inProcess } },
      });
      await inventory.init();
      await orders.init();
      const approving = sdk.tracer.startSpan("approve");
      await context.with(trace.setSpan(context.active(), approving), () =>
        orders.send.OrderApproved("inventory", { orderId: "7" }),
      );
      await orders.dispatch(timeBudget(60_000));
      approving.end();
      const chain = spansInOrder(sdk).map(({ name }) => name);
      expect(chain).toEqual([
        "approve",
        "process inventory/OrderApproved",
        "send OrderApproved",
        "process OrderApproved",
      ]);
      await orders.close();
      await inventory.close();
    });
  });
}

const idOf = (span: Pick<ReadableSpan, "spanContext"> | undefined): string => span!.spanContext().spanId;

/** From the root to the last of its descendants, where each span has one child. */
function spansInOrder(sdk: Pick<Sdk, "spans">): readonly ReadableSpan[] {
  const byParent = new Map(sdk.spans().map((span) => [span.parentSpanContext?.spanId, span]));
  const chain: ReadableSpan[] = [];
  for (let next = byParent.get(undefined); next !== undefined; next = byParent.get(idOf(next)))
    chain.push(next);
  return chain;
}

async function appOn(
  database: TestDatabase,
  sdk: Pick<Sdk, "options">,
  name: string,
  own: Partial<AppDefinition> = {},
) {
  const published: PublishedMessage[] = [];
  const definition = defineApp({
    ...openTelemetry(sdk.options),
    ...inSchemaOf(database),
    database: () => database.db,
    inbox: { table: `${name}_inbox`, ...own.inbox },
    outbox: { table: `${name}_outbox` },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    sources: { bank: { scheme: "standard", secrets: [secret], topic: "{json:type}" } },
    handlers:
      own.handlers ??
      (({ outbox }) => ({
        "bank.invoice.paid": {
          transactional: true,
          handle: async (message, { tx }) => {
            await outbox.enqueue(
              { topic: "receipt.send", payload: message.payload, partitionKey: "customer-7" },
              { tx },
            );
          },
        },
      })),
    publishers: {
      "receipt.send": functionPublisher({
        destination: "The printer",
        publish: async (message) => void published.push(message),
      }),
    },
  });
  const app = await openJobs(definition, { environment: await readEnvironment({}) });
  await app.migrate();
  let posted = 0;
  return {
    inbox: app.inbox,
    outbox: app.outbox,
    published,
    dispatch: () => app.dispatch(timeBudget(60_000)),
    post({ traceparent, signature }: { traceparent?: string; signature?: string } = {}) {
      const request = signWebhook(standard, {
        url: "https://hooks.example.com/webhooks/bank",
        secrets: secret,
        body: payload,
        messageId: `${name}-${++posted}`,
        headers: { "content-type": "application/json", ...(traceparent && { traceparent }) },
      });
      const headers = { ...request.headers, ...(signature && { "webhook-signature": signature }) };
      return app.webhook(new Request(request.url, { method: "POST", headers, body: request.body as string }));
    },
  };
}
