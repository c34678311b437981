import { describe, expect, it } from "vitest";
import { openJobs } from "../../../src/app/jobs.js";
import { openApp } from "../../../src/app/open-app.js";
import { appStats } from "../../../src/app/stats.js";
import { coalesced, wakeUpIntervalMs } from "../../../src/app/wake-up.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { InvalidArgumentError } from "../../../src/errors.js";
import {
  type AppDefinition,
  createInbox,
  createOutbox,
  defineApp,
  newOwnerToken,
  timeBudget,
} from "../../../src/index.js";
import { signWebhook } from "../../../src/webhooks/index.js";
import { stripe as preset } from "../../../src/webhooks/presets/stripe.js";
import { testClock } from "../../contract/harness.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";

const memory = { database: "sqlite::memory:", dispatch: { reserveMs: 50 } } as const;
const quiet = { ONCEBOX_LOG_LEVEL: "silent" };

const running = async (
  definition: AppDefinition,
  env: NodeJS.ProcessEnv = {},
  platform: { wakeUp?: { wake(): Promise<void> } } = {},
) => {
  const app = await openJobs(defineApp({ ...memory, ...definition }), {
    environment: await readEnvironment({ ...quiet, ...env }),
    ...platform,
  });
  await app.migrate();
  return app;
};

const stripe = (id: string, secret = "whsec_test_secret_of_tests", type = "invoice.paid") => {
  const signed = signWebhook(preset, {
    url: "http://localhost/webhooks/stripe",
    body: JSON.stringify({ id, type }),
    secrets: secret,
  });
  return new Request(signed.url, { ...signed, body: signed.body as string });
};

describe("defineApp", () => {
  it("FUN-09 refuses unknown fields and wrong values, all problems in one error", () => {
    const wrong = { handler: {}, retentionMs: -1, sources: [] } as unknown as AppDefinition;
    expect(() => defineApp(wrong)).toThrow(InvalidArgumentError);
    expect(() => defineApp(wrong)).toThrow(/sources.*retentionMs.*handler|handler.*sources/s);
  });

  it("FUN-09 accepts what its type allows", () => {
    const stripe = { scheme: "stripe", secrets: { from: "env", name: "STRIPE_SECRET" } };
    const right = [
      {},
      { database: undefined, sources: undefined },
      { sources: { stripe }, handlers: { "*": () => {} }, publishers: () => ({}) },
      { database: "sqlite:app.db", schema: "infra", retentionMs: 1_000, logger: console, metrics: {} },
      { database: () => {}, inbox: {}, outbox: { table: "Outbox" }, dispatch: {}, webhooks: {} },
      { database: { from: "aws-secrets-manager", id: "prod/db", key: "url" } },
      { tenants: { open: () => {} } },
      { consumer: { subscriber: "orders", handle: () => {} } },
      Object.create(null),
    ] as unknown as AppDefinition[];
    for (const app of right) expect(defineApp(app)).toBe(app);
  });

  it("FUN-09 refuses a wrong value in any field, by the field's name", () => {
    const wrong = {
      database: ["", 5, {}, { from: "env" }, { from: "env", name: "URL", more: 1 }],
      tenants: [{}, { open: 1 }, null],
      sources: [[], { a: [] }, { a: null }, { a: () => {} }, new Map(), "text"],
      handlers: ["text", [], null, new Map()],
      publishers: ["text", [], null, new (class Own {})()],
      consumer: [
        {},
        { subscriber: "", handle: () => {} },
        { subscriber: "orders" },
        { subscriber: "orders", handle: () => {}, more: 1 },
        [],
      ],
      inbox: ["text", [], null, new Date()],
      outbox: ["text", [], null],
      schema: ["", 5, null],
      dispatch: [5, [], null],
      webhooks: [5, [], null],
      retentionMs: [0, -1, Number.NaN, 5n, "5"],
      deadRetentionMs: [0, 90, 86_399_999, 400 * 86_400_000, Number.NaN, Number.POSITIVE_INFINITY, "90"],
      logger: [{}, { info: "text" }, null],
      metrics: [5, null, "text"],
    };
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        const refused = new RegExp(`^defineApp: ${name} must be .*\\.$`);
        expect(() => defineApp({ [name]: value } as AppDefinition), name).toThrow(refused);
      }
    }
    for (const app of [null, undefined, "text", [], 5])
      expect(() => defineApp(app as unknown as AppDefinition)).toThrow(/^defineApp: .* must be an object/);
  });

  it("FUN-09 refuses a database beside tenants, and a consumer beside tenants", () => {
    const tenants = { open: () => {} } as unknown as NonNullable<AppDefinition["tenants"]>;
    const consumer = { subscriber: "orders", handle: () => {} };
    expect(() => defineApp({ database: "sqlite:app.db", tenants, consumer })).toThrow(
      /database and tenants.*an app with tenants has none/,
    );
  });
});

describe("an app", () => {
  it("ADD-12 ADD-22 acknowledges and reports what a source sends besides what is handled, unless it is told otherwise", async () => {
    const secrets = "whsec_test_secret_of_tests";
    const dispatched = async (definition: AppDefinition) => {
      const logs: LogLine[] = [];
      const app = await running({
        sources: { stripe: { secrets } },
        handlers: { "stripe.invoice.paid": () => {} },
        ignore: ["stripe.product.*"],
        logger: recordingLogger(logs),
        ...definition,
      });
      const types = ["invoice.paid", "customer.created", "customer.created", "product.created"];
      for (const [index, type] of types.entries())
        expect((await app.webhook(stripe(`evt_${index}`, secrets, type))).status).toBe(200);
      const { inbox } = await app.dispatch(timeBudget(10_000));
      const { unhandled, inbox: stats } = await appStats(app);
      await app.close();
      const lines = logs.filter(({ message }) => message.startsWith("no handler for this topic"));
      return { inbox, unhandled, phases: stats.phases, lines: lines.map(({ fields }) => fields.topic) };
    };
    const usual = await dispatched({});
    expect(usual.inbox).toMatchObject({ acked: 4, abandoned: 0, failed: 0, unhandled: 2 });
    expect(usual.phases).toMatchObject({ done: 4, retrying: 0, dead: 0 });
    expect(usual.lines).toEqual(["stripe.customer.created"]);
    const listed = { topic: "stripe.customer.created", messages: 2, lastSeenAt: expect.any(Date) };
    expect(usual.unhandled).toEqual([listed]);

    const retried = await dispatched({ onUnhandled: "retry" });
    expect(retried.inbox).toMatchObject({ acked: 2, abandoned: 2, unhandled: 0 });
    expect(retried.lines).toHaveLength(2);
    expect(retried.unhandled).toEqual([]);
    expect((await dispatched({ onUnhandled: "dead" })).phases).toMatchObject({ dead: 2 });
    // a source without any handler: nothing says that its messages are this app's
    const others = await dispatched({ handlers: { "github.push": () => {} } });
    expect(others.inbox).toMatchObject({ acked: 1, abandoned: 3, unhandled: 0 });
    const all = await dispatched({ handlers: { "github.push": () => {} }, onUnhandled: "ack" });
    expect(all.inbox).toMatchObject({ acked: 4, unhandled: 3 });
    expect(() => defineApp({ onUnhandled: "drop" as never })).toThrow(
      /onUnhandled must be one of ack, bySource/,
    );
  });

  it("ADD-12 ADD-22 retries a message without a handler that its own code put in, whatever its source is called", async () => {
    const unhandled = async (environment: Record<string, string>) => {
      const app = await running(
        { handlers: { "stripe.invoice.paid": () => {} }, logger: false },
        environment,
      );
      await app.inbox.receive({ source: "stripe", messageId: "1", topic: "stripe.refund", payload: "" });
      const { inbox } = await app.dispatch(timeBudget(10_000));
      await app.close();
      return inbox;
    };
    expect(await unhandled({})).toMatchObject({ acked: 0, abandoned: 1, unhandled: 0 });
    const sources = '{"stripe": {"scheme": "stripe", "secrets": "whsec_test_secret_of_tests"}}';
    expect(await unhandled({ ONCEBOX_WEBHOOKS: sources })).toMatchObject({ acked: 1, unhandled: 1 });
  });

  it("FUN-01 FUN-03 FUN-04 takes webhooks, handles, publishes, reaps and cleans up", async () => {
    const handled: string[] = [];
    const published: string[] = [];
    const app = await running(
      {
        handlers: ({ outbox }) => ({
          "stripe.invoice.paid": async ({ messageId }) => {
            handled.push(messageId);
            await outbox.enqueue({ topic: "receipt.send", payload: "", correlationId: messageId });
          },
        }),
        publishers: { "receipt.send": ({ correlationId }) => void published.push(correlationId!) },
      },
      {
        ONCEBOX_WEBHOOKS: '{"stripe": {"scheme": "stripe", "secrets": {"from": "env", "name": "S"}}}',
        S: "whsec_test_secret_of_tests",
      },
    );
    expect((await app.webhook(stripe("evt_1"))).status).toBe(200);
    expect((await app.webhook(stripe("evt_1"))).status).toBe(200);
    expect((await app.webhook(stripe("evt_2", "whsec_wrong"))).status).toBe(401);
    const report = await app.dispatch(timeBudget(10_000));
    expect(report).toMatchObject({ inbox: { acked: 1 }, outbox: { acked: 1 }, more: false });
    expect({ handled, published }).toEqual({ handled: ["evt_1"], published: ["evt_1"] });
    expect(await app.reap(timeBudget(10_000))).toMatchObject({
      inbox: { more: false },
      outbox: { more: false },
    });
    expect(await app.cleanup(timeBudget(10_000))).toMatchObject({ inbox: { done: 0, more: false } });
    await app.close();
  });

  it("FUN-02 FUN-07 a source may have secrets for each tenant, and none of its own", async () => {
    const scheme = { ...preset, contentTypes: ["application/json"] };
    const tenantSecrets = (tenant: string) => (tenant === "acme" ? "whsec_test_secret_of_acme" : undefined);
    const app = await running({ sources: { stripe: { scheme, tenant: "{path}", tenantSecrets } } });
    const sent = async (tenant: string) => {
      const request = stripe("evt_1", "whsec_test_secret_of_acme");
      return (await app.webhook(new Request(`${request.url}/${tenant}`, request))).status;
    };
    expect(await Promise.all([sent("acme"), sent("other")])).toEqual([200, 401]);
    await app.close();
  });

  it("ADD-02 FUN-04 clean-up keeps dead messages, unless the app or the environment says for how long", async () => {
    const old = testClock(Date.now() - 100 * 86_400_000);
    const cases = [
      [{}, {}, 0],
      [{ deadRetentionMs: 90 * 86_400_000 }, {}, 1],
      [{}, { ONCEBOX_DEAD_RETENTION_DAYS: "90" }, 1],
      [{ deadRetentionMs: 90 * 86_400_000 }, { ONCEBOX_DEAD_RETENTION_DAYS: "200" }, 0],
      [{ deadRetentionMs: 90 * 86_400_000 }, { ONCEBOX_DEAD_RETENTION_DAYS: "0" }, 1],
    ] as const;
    for (const [definition, env, dead] of cases) {
      const app = await running(definition, env);
      const [inbox, outbox] = [createInbox(app.db, { clock: old }), createOutbox(app.db, { clock: old })];
      await inbox.markDead({ source: "s", messageId: "1" }, "no");
      await outbox.enqueue({ topic: "t", payload: "" });
      const owner = newOwnerToken();
      await outbox.fail(owner, await outbox.claim({ owner }));
      const report = { done: 0, dead, more: false };
      expect(await app.cleanup(timeBudget(10_000))).toEqual({ inbox: report, outbox: report });
      await app.close();
    }
  });

  it("FUN-06 wakes the dispatcher after a new webhook and not after a duplicate, and survives its failure", async () => {
    let woken = 0;
    const wake = async () => {
      woken++;
      throw new Error("the queue is away");
    };
    const sources = { stripe: { scheme: "stripe", secrets: "whsec_test_secret_of_tests" } } as const;
    const app = await running({ sources }, {}, { wakeUp: { wake } });
    expect((await app.webhook(stripe("evt_1"))).status).toBe(200);
    expect(woken).toBe(1);
    expect((await app.webhook(stripe("evt_1"))).status).toBe(200);
    expect(woken).toBe(1);
    await app.close();
  });

  it("FUN-06 with time used up and work left it wakes a successor", async () => {
    let woken = 0;
    const app = await running(
      {
        handlers: { slow: () => new Promise((resolve) => setTimeout(resolve, 150)) },
        dispatch: { concurrency: 1 },
      },
      {},
      { wakeUp: { wake: async () => void woken++ } },
    );
    await app.inbox.enqueue(
      Array.from({ length: 20 }, (_, i) => ({
        source: "s",
        messageId: String(i),
        topic: "slow",
        payload: "",
      })),
    );
    const report = await app.dispatch(timeBudget(1_000));
    expect(report.more).toBe(true);
    expect(woken).toBe(1);
    await app.close();
  });

  it("FUN-06 a run that was woken polls once more for messages that arrived meanwhile", async () => {
    const handled: string[] = [];
    const app = await running({ handlers: { t: ({ messageId }) => void handled.push(messageId) } });
    const message = (messageId: string) => ({ source: "s", messageId, topic: "t", payload: "" });
    await app.inbox.receive(message("1"));
    const run = app.dispatch(timeBudget(30_000), { wokenUp: true });
    await expect.poll(() => handled).toEqual(["1"]);
    await app.inbox.receive(message("2"));
    expect(await run).toMatchObject({ inbox: { acked: 2 }, more: false });
    await app.close();
  });

  it("FUN-01 FUN-11 without sources it answers 404 and logs the reason; without a database the error says what to set", async () => {
    const logs: LogLine[] = [];
    const app = await running({ logger: recordingLogger(logs) });
    expect((await app.webhook(stripe("evt_1"))).status).toBe(404);
    expect(logs).toMatchObject([
      {
        level: "warn",
        message: "webhook",
        fields: { status: 404, reason: expect.stringContaining("ONCEBOX_WEBHOOKS") },
      },
    ]);
    await app.close();
    const nowhere = openJobs(defineApp({}), { environment: await readEnvironment(quiet) });
    await expect(nowhere).rejects.toThrow(InvalidArgumentError);
    await expect(nowhere).rejects.toThrow(/ONCEBOX_DATABASE_URL/);
  });
});

it("ADD-07 wrong options of the inbox are refused when the app opens, also by commands", async () => {
  for (const inbox of [{ deadOnRedelivery: "x" }, { retry: { maxAttempts: -1 } }, { unknown: 1 }]) {
    const definition = defineApp({ database: "sqlite::memory:", inbox: inbox as never });
    const opening = openApp(definition, { environment: await readEnvironment({}) });
    await expect(opening, JSON.stringify(inbox)).rejects.toThrow(/deadOnRedelivery|maxAttempts|unknown/);
  }
});

describe("coalesced wake-ups", () => {
  it("FUN-06 wake-ups never run at once: whoever asks while one runs gets its result", async () => {
    let now = 0;
    const started: ((error?: Error) => void)[] = [];
    const wake = () =>
      new Promise<void>((resolve, reject) => {
        started.push((error) => (error === undefined ? resolve() : reject(error)));
      });
    const wakeUp = coalesced({ wake }, () => now);
    const first = wakeUp.wake();
    now += 5 * wakeUpIntervalMs;
    const second = wakeUp.wake();
    expect(started).toHaveLength(1);
    started[0]!(new Error("away"));
    await expect(first).rejects.toThrow("away");
    await expect(second).rejects.toThrow("away");
    const third = wakeUp.wake();
    started[1]!();
    await third;
    expect(started).toHaveLength(2);
  });

  it("FUN-06 a wake-up that throws at once does not stand in the way of the next", async () => {
    let calls = 0;
    const wakeUp = coalesced({
      wake() {
        if (++calls === 1) throw new Error("no client");
        return Promise.resolve();
      },
    });
    await expect(wakeUp.wake()).rejects.toThrow("no client");
    await wakeUp.wake();
    expect(calls).toBe(2);
  });

  it("FUN-06 a burst wakes once per interval; one that failed does not count", async () => {
    let now = 0;
    let sent = 0;
    let fails = true;
    const wakeUp = coalesced(
      {
        async wake() {
          sent++;
          if (fails) throw new Error("away");
        },
      },
      () => now,
    );
    await expect(wakeUp.wake()).rejects.toThrow("away");
    fails = false;
    await Promise.all([wakeUp.wake(), wakeUp.wake(), wakeUp.wake()]);
    expect(sent).toBe(2);
    now += wakeUpIntervalMs - 1;
    await wakeUp.wake();
    expect(sent).toBe(2);
    now += 1;
    await wakeUp.wake();
    expect(sent).toBe(3);
  });
});
