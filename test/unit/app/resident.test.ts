import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { cleanupIntervalMs } from "../../../src/app/resident.js";
import { multiTenant, tenantsFromConfiguration } from "../../../src/app/tenants.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { type App, type AppDefinition, createApp, defineApp, newOwnerToken } from "../../../src/index.js";
import { signWebhook } from "../../../src/webhooks/index.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";

const anHour = 3_600_000;
const withoutPolls = { pollMs: anHour, idlePollMs: anHour };
const secret = "whsec_test_secret_of_tests";

let apps: App[] = [];
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  apps = [];
});

async function running(definition: AppDefinition): Promise<App> {
  const environment = await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" });
  const app = await createApp(defineApp(definition), { environment });
  apps.push(app);
  await app.migrate();
  return app;
}

function webhook(id: string, tenant: string): Request {
  const body = JSON.stringify({ id, type: "invoice.paid" });
  const url = `http://localhost/webhooks/stripe/${tenant}`;
  const signed = signWebhook(stripe, { url, body, secrets: secret });
  return new Request(signed.url, { ...signed, body });
}

describe("an app with tenants that was started", () => {
  it("ADD-24 handles a tenant's webhook at once, and publishes what was committed for a tenant", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-resident-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const ids = ["acme", "globex"];
    const records = ids.map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` }));
    const done: string[] = [];
    const app = await running({
      tenants: multiTenant({ discover: tenantsFromConfiguration(records) }),
      sources: { stripe: { scheme: "stripe", secrets: secret, tenant: "{path}" } },
      handlers: { "*": ({ messageId }) => ({ topic: "t", payload: `handled ${messageId}` }) },
      publishers: { t: ({ payload }) => void done.push(payload) },
    });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }); // no time passes: only wake-ups poll again
    onTestFinished(() => void vi.useRealTimers());
    const arrived = async (payload: string): Promise<void> => {
      for (let turn = 0; turn < 100_000 && !done.includes(payload); turn++) await setImmediate();
      expect(done).toContain(payload);
    };
    await app.start(withoutPolls);
    for (const [index, id] of [...ids, ...ids].entries()) {
      expect((await app.fetch(webhook(`evt_${index}`, id))).status).toBe(200);
      await arrived(`handled evt_${index}`);
    }
    const outbox = await app.tenants!.outbox("globex");
    await outbox.enqueue({ topic: "t", payload: "plainly" });
    await arrived("plainly");
    const { db } = await app.tenants!.stores("globex");
    await db.driver.transaction((tx) => outbox.enqueue({ topic: "t", payload: "in a transaction" }, { tx }));
    await arrived("in a transaction");
    vi.useRealTimers();
    await app.stop();
    expect(done).toHaveLength(6);
  });
});

describe("an app that was started", () => {
  it("ADD-24 publishes at once what a consumer of a queue service returns", async () => {
    const published: string[] = [];
    const app = await running({
      database: "sqlite::memory:",
      consumer: { subscriber: "orders", handle: () => ({ topic: "t", payload: "sent" }) },
      publishers: { t: ({ payload }) => void published.push(payload) },
    });
    await app.start(withoutPolls);
    const queued = {
      topic: "order",
      type: "order",
      payload: "",
      data: null,
      headers: {},
      correlationId: null,
      partitionKey: null,
    };
    await app.consume!({ ...queued, messageId: "1", deliveries: 1 });
    await expect.poll(() => published).toEqual(["sent"]);
  });

  it("ADD-24 handles at once what an operator replays by the diagnostics API", async () => {
    const token = "tester:token_of_the_tests_0123456789";
    let works = false;
    const handled: string[] = [];
    const app = await running({
      database: "sqlite::memory:",
      admin: { tokens: token },
      inbox: { retry: { maxAttempts: 1 } },
      handlers: {
        t({ messageId }) {
          if (!works) throw new Error("no");
          handled.push(messageId);
        },
      },
    });
    await app.start(withoutPolls);
    await app.inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    await expect.poll(async () => (await app.inbox.stats()).counts.Dead).toBe(1);
    works = true;
    const replay = new Request("http://localhost/_oncebox/inbox/dead/replay", {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ keys: [{ source: "s", messageId: "1" }] }),
    });
    const response = await app.fetch(replay);
    expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
    await expect.poll(() => handled).toEqual(["1"]);
  });

  it("ADD-24 reaps and cleans up", async () => {
    const done: string[] = [];
    const app = await running({
      database: "sqlite::memory:",
      retentionMs: 1,
      handlers: { t: ({ messageId }) => void done.push(messageId) },
    });
    await app.inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    await app.inbox.claim({ owner: newOwnerToken(), leaseMs: 1 }); // and the process that has claimed it is gone
    await app.start({ pollMs: 20, idlePollMs: 20, reapMs: 20, cleanupMs: 20 });
    await expect.poll(() => done).toEqual(["1"]);
    await expect.poll(async () => (await app.inbox.stats()).counts.Done).toBe(0);
  });

  it("MID-14 cleans up every minute by default, and each hour where it has tenants", () => {
    expect(cleanupIntervalMs({}, false)).toBe(60_000);
    expect(cleanupIntervalMs({}, true)).toBe(3_600_000);
    expect(cleanupIntervalMs({ cleanupMs: 5 }, true)).toBe(5);
  });

  it("MID-14 keeps messages by queue, topic and source, as the app says", async () => {
    const app = await running({
      database: "sqlite::memory:",
      retentions: [
        { topic: "debug.*", retentionMs: 1 },
        { queue: "outbox", retentionMs: 1 },
        { source: "noisy", retentionMs: 1 },
      ],
      ignore: ["*"],
      publishers: { "*": () => {} },
      handlers: {},
    });
    const receive = (source: string, topic: string) =>
      app.inbox.receive({ source, messageId: topic, topic, payload: "" });
    await receive("quiet", "debug.a");
    await receive("quiet", "order");
    await receive("noisy", "order");
    await app.outbox.enqueue({ topic: "sent", payload: "" });
    await app.dispatch();
    const left = async () => [(await app.inbox.stats()).counts.Done, (await app.outbox.stats()).counts.Done];
    expect(await left()).toEqual([3, 1]);
    await expect.poll(async () => app.cleanup().then(left)).toEqual([1, 0]);
    expect((await app.inbox.list()).messages).toMatchObject([{ source: "quiet", topic: "order" }]);
  });

  it("MID-14 refuses wrong retentions, and those that would forget deliveries while copies are accepted", async () => {
    const wrong: readonly [object, RegExp][] = [
      [{ topic: "a" }, /retentions is wrong: retentions\[0\] must have a retentionMs/],
      [{ queue: "all", retentionMs: 1 }, /queue must be one of inbox, outbox/],
      [{ where: "a", retentionMs: 1 }, /unknown field where/],
    ];
    for (const [retention, problem] of wrong)
      expect(() => defineApp({ retentions: [retention] })).toThrow(problem);
    const sources = { zoom: { secrets: ["a secret of the tests 0123456789"] } };
    const opened = (retentions: AppDefinition["retentions"], more: object = {}) =>
      running({ database: "sqlite::memory:", sources, ...more, ...(retentions && { retentions }) });
    const problem = /zoom: retentionMs must be at least 7500000, not 60000/;
    const retentionMs = 60_000;
    for (const fits of [{ source: "zoom" }, { topic: "zoom.*" }, { topic: "*" }, { topic: "zo*" }, {}])
      await expect(opened([{ ...fits, retentionMs }]), JSON.stringify(fits)).rejects.toThrow(problem);
    await expect(opened(undefined, { retentionMs })).rejects.toThrow(problem);
    const shared = { webhooks: { sharedTopics: true } };
    await expect(opened([{ topic: "order.*", retentionMs }], shared)).rejects.toThrow(problem);
    await opened([
      { source: "zoom", retentionMs: Number.POSITIVE_INFINITY },
      { topic: "*", retentionMs }, // the first fits all of the source
    ]);
    await opened([
      { queue: "outbox", retentionMs },
      { source: "other", retentionMs },
      { topic: "zoomed.*", retentionMs },
      { topic: "zoom.*", retentionMs: 7_500_000 },
    ]);
  });
});
