import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openJobs } from "../../../src/app/jobs.js";
import { multiTenant } from "../../../src/app/tenants.js";
import { readEnvironment } from "../../../src/config/environment.js";
import {
  type AppDefinition,
  defineApp,
  type MetricAttributes,
  type Metrics,
  newOwnerToken,
  timeBudget,
} from "../../../src/index.js";
import { triggerMessage } from "../../../src/middleware/consume.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import { functionPublisher, startOutboxPublisher } from "../../../src/publishers/index.js";
import { openTelemetry } from "../../../src/telemetry/index.js";
import { gate } from "../../contract/support/gate.js";
import { openTelemetrySdk, useContextManager } from "../../support/open-telemetry-sdk.js";

function recordingMetrics() {
  const measured: [string, number, MetricAttributes][] = [];
  const record = (name: string, value: number, attributes: MetricAttributes): void =>
    void measured.push([name, value, attributes]);
  const metrics: Metrics = { count: record, duration: record, gauge: record };
  const gauges = () => measured.filter(([name]) => name.startsWith("oncebox.queue."));
  return { measured, metrics, gauges };
}

async function appWith(definition: AppDefinition) {
  const environment = await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" });
  const app = await openJobs(defineApp(definition), { environment });
  await app.migrate();
  return app;
}

const message = { source: "s", messageId: "1", topic: "t", payload: "{}" };

describe("the telemetry of an app", () => {
  useContextManager();

  it("MSG-13 ADD-05 the reaper writes due messages, oldest age and the messages of each phase", async () => {
    const { metrics, gauges } = recordingMetrics();
    const ended = ["retrying", "running", "paused", "done", "dead"];
    const app = await appWith({ database: "sqlite::memory:", metrics });
    await app.inbox.receive(message);
    await app.reap(timeBudget(60_000));
    expect(gauges()).toEqual([
      ["oncebox.queue.due", 1, { queue: "inbox" }],
      ["oncebox.queue.oldest_due_age", expect.any(Number), { queue: "inbox" }],
      ["oncebox.queue.messages", 1, { queue: "inbox", state: "waiting" }],
      ...[...ended, "archived", "replaced", "seen"].map((state) => [
        "oncebox.queue.messages",
        0,
        { queue: "inbox", state },
      ]),
      ...["due", "oldest_due_age"].map((name) => [`oncebox.queue.${name}`, 0, { queue: "outbox" }]),
      ...["waiting", ...ended].map((state) => ["oncebox.queue.messages", 0, { queue: "outbox", state }]),
    ]);
    await app.close();
  });

  it("MSG-13 ADD-17 messages under a pause are paused in oncebox.queue.messages, and not in oncebox.queue.due", async () => {
    const { metrics, gauges } = recordingMetrics();
    const app = await appWith({ database: "sqlite::memory:", metrics });
    await app.inbox.receive(message);
    await operatorsOf(app.inbox).pause({ topic: message.topic }, { by: "alice" });
    expect(await app.inbox.claim({ owner: newOwnerToken() })).toEqual([]);
    await app.outbox.enqueue([1, 2].map(() => ({ topic: "t", payload: "{}" })));
    await operatorsOf(app.outbox).pause("all", { by: "alice" });
    await app.reap(timeBudget(60_000));
    const counted = (name: string) => gauges().filter(([one]) => one === `oncebox.queue.${name}`);
    const paused = counted("messages").filter(([, , attributes]) => attributes.state === "paused");
    expect(paused.map(([, value]) => value)).toEqual([1, 2]);
    expect(counted("due").map(([, value]) => value)).toEqual([0, 0]);
    await app.close();
  });

  it("MSG-13 ADD-05 with many tenants it writes the oldest age among them", async () => {
    const { metrics, gauges } = recordingMetrics();
    const folder = await mkdtemp(join(tmpdir(), "oncebox-telemetry-"));
    const list = ["a", "b"].map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` }));
    const app = await appWith({ tenants: multiTenant({ discover: () => list }), metrics });
    try {
      await (await app.tenants!.inbox("b")).receive(message);
      await app.reap(timeBudget(60_000));
      expect(gauges()).toEqual([
        ["oncebox.queue.oldest_due_age", expect.any(Number), { queue: "inbox" }],
        ["oncebox.queue.oldest_due_age", 0, { queue: "outbox" }],
      ]);
    } finally {
      await app.close();
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("ADD-05 a consumer goes on with its sender's trace, and so does what it returns", async () => {
    const sdk = openTelemetrySdk();
    const app = await appWith({
      ...openTelemetry(sdk.options),
      database: "sqlite::memory:",
      consumer: { subscriber: "orders", handle: () => ({ topic: "receipt", payload: "{}" }) },
    });
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    await app.consume!(
      triggerMessage({
        ...message,
        headers: { traceparent: `00-${traceId}-b7ad6b7169203331-01` },
        correlationId: null,
        partitionKey: null,
        deliveries: 1,
      }),
    );
    const [span] = sdk.spans();
    expect(span!.name).toBe("process t");
    expect(span!.parentSpanContext?.spanId).toBe("b7ad6b7169203331");
    const [outgoing] = (await app.outbox.list()).messages;
    expect(outgoing!.headers).toEqual({ traceparent: `00-${traceId}-${span!.spanContext().spanId}-01` });
    await app.close();
  });

  it("ADD-05 a publisher of a server measures and traces by what startOutboxPublisher was given", async () => {
    const sdk = openTelemetrySdk();
    const app = await appWith({ database: "sqlite::memory:" });
    const published = gate<Readonly<Record<string, string>> | null>();
    await app.outbox.enqueue({ topic: "t", payload: "{}", headers: { colour: "red" } });
    const publisher = startOutboxPublisher({
      ...openTelemetry(sdk.options),
      outbox: app.outbox,
      publishers: {
        t: functionPublisher({
          destination: "The printer",
          publish: async ({ headers }) => published.open(headers),
        }),
      },
    });
    const headers = await published.promise;
    await publisher.stop();
    const sending = sdk.spans().find(({ name }) => name === "send t");
    expect(headers).toEqual({
      colour: "red",
      traceparent: expect.stringContaining(sending!.spanContext().spanId),
    });
    expect([...(await sdk.metrics()).keys()]).toContain("oncebox.send.duration");
    await app.close();
  });

  it("a tracing that is none is refused", () => {
    expect(() => defineApp({ tracing: {} as never })).toThrow(/tracing must be what openTelemetry\(\)/);
  });
});
