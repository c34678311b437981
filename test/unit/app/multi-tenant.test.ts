import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type AppJobs, openJobs } from "../../../src/app/jobs.js";
import { appStats } from "../../../src/app/stats.js";
import type { MultiTenantOptions } from "../../../src/app/tenants.js";
import {
  type FanOut,
  multiTenant,
  type TenantBatch,
  tenantsFromConfiguration,
} from "../../../src/app/tenants.js";
import { type LogFields, silentLogger } from "../../../src/base/logger.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import { type AppDefinition, createInbox, defineApp, newOwnerToken, timeBudget } from "../../../src/index.js";
import { statement } from "../../../src/sql/driver.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { signWebhook } from "../../../src/webhooks/index.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { testClock } from "../../contract/harness.js";

let folder: string;
let apps: AppJobs[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-app-"));
});
afterEach(async () => {
  for (const app of apps) await app.close();
  apps = [];
  await rm(folder, { recursive: true, force: true });
});

const ids = ["acme", "globex", "initech"];
const discover = () =>
  tenantsFromConfiguration(ids.map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` })));

async function running(
  definition: Omit<AppDefinition, "tenants">,
  {
    tenants = {},
    ...platform
  }: { fanOut?: FanOut; wakeUp?: { wake(): Promise<void> }; tenants?: Partial<MultiTenantOptions> } = {},
) {
  const app = await openJobs(
    defineApp({ ...definition, tenants: multiTenant({ discover: discover(), ...tenants }) }),
    { environment: await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" }), ...platform },
  );
  apps.push(app);
  await app.migrate();
  return app;
}

const message = (messageId: string) => ({ source: "test", messageId, topic: "t", payload: "" });

const sources = {
  far: { scheme: "stripe", secrets: "whsec_test_secret_of_tests", tenant: "{path}" },
  shop: {
    scheme: "stripe",
    secrets: "whsec_test_secret_of_tests",
    tenant: ["{header:x-tenant}", "{query:tenant}", "{json:data.tenant}"],
  },
} as const;

function webhook(id: string, tenant?: string, path = "shop", data = {}): Request {
  const signed = signWebhook(stripe, {
    url: `http://localhost/webhooks/${path}`,
    body: JSON.stringify({ id, type: "t", data }),
    secrets: "whsec_test_secret_of_tests",
  });
  const headers = new Headers(signed.headers);
  if (tenant !== undefined) headers.set("x-tenant", tenant);
  return new Request(signed.url, { method: "POST", headers, body: signed.body as string });
}

describe("an app with many tenants", () => {
  it("FUN-07 a webhook is stored for the tenant that it names, and refused when it names none or an unknown one", async () => {
    const app = await running({ sources });
    expect((await app.webhook(webhook("evt_1", "globex"))).status).toBe(200);
    expect((await app.webhook(webhook("evt_2", "nobody"))).status).toBe(503);
    expect((await app.webhook(webhook("evt_3"))).status).toBe(503);
    const due = await Promise.all(ids.map(async (id) => (await (await app.tenants!.inbox(id)).stats()).due));
    expect(due).toEqual([0, 1, 0]);
  });

  it("FUN-01 FUN-07 a webhook that arrived before its tenant was added is stored when it is delivered again", async () => {
    const list = [{ id: "acme", database: `sqlite:${join(folder, "acme.db")}` }];
    const app = await running({ sources }, { tenants: { discover: () => list } });
    const early = async () => {
      const answer = await app.webhook(webhook("evt_1", "globex"));
      return { status: answer.status, retryAfter: answer.headers.get("retry-after") };
    };
    expect(await early()).toEqual({ status: 503, retryAfter: "10" });
    list.push({ id: "globex", database: `sqlite:${join(folder, "globex.db")}` });
    await app.tenants!.refresh();
    expect((await early()).status).toBe(503); // its tables are not there yet
    await app.migrate();
    const stored = await app.webhook(webhook("evt_1", "globex"));
    expect(await stored.json()).toMatchObject({ outcome: "enqueued" });
    const again = await app.webhook(webhook("evt_1", "globex"));
    expect(await again.json()).toMatchObject({ outcome: "duplicate" });
    expect((await (await app.tenants!.inbox("acme")).stats()).due).toBe(0);
  });

  it("FUN-05 FUN-07 a tenant batch that is delivered to two workers at once is handled once", async () => {
    const handled: string[] = [];
    const definition: Omit<AppDefinition, "tenants"> = {
      handlers: {
        async t({ messageId }) {
          handled.push(messageId);
          await new Promise((resolve) => setImmediate(resolve));
        },
      },
    };
    const workers = [await running(definition), await running(definition)];
    const messages = ids.flatMap((id) => Array.from({ length: 40 }, (_, index) => `${id}-${index}`));
    for (const id of ids) {
      const own = messages.filter((one) => one.startsWith(id)).map(message);
      await (await workers[0]!.tenants!.inbox(id)).enqueue(own);
    }
    const batch = { tenants: ids, until: Date.now() + 60_000 };
    await Promise.all(workers.map((app) => app.dispatch(timeBudget(20_000), { tenantBatches: [batch] })));
    expect(handled.sort()).toEqual(messages.sort());
  });

  it("FUN-07 the tenant comes from a header, the query, the event or the path, as the source says", async () => {
    const app = await running({ sources });
    const accepted = [
      webhook("evt_header", "acme"),
      webhook("evt_query", undefined, "shop?tenant=acme"),
      webhook("evt_event", undefined, "shop", { tenant: "acme" }),
      webhook("evt_path", undefined, "far/acme"),
      webhook("evt_slash", undefined, "far/%61cme/"),
    ];
    for (const request of accepted) expect((await app.webhook(request)).status).toBe(200);
    expect((await (await app.tenants!.inbox("acme")).stats()).due).toBe(accepted.length);
    expect((await app.webhook(webhook("evt_1", "acme", "shop/acme"))).status).toBe(404);
    expect((await app.webhook(webhook("evt_2", undefined, "far/acme/more"))).status).toBe(404);
    expect((await app.webhook(webhook("evt_3", undefined, "far/%ff"))).status).toBe(503);
  });

  it("FUN-03 FUN-04 FUN-07 one dispatcher, reaper and clean-up serve all, and handlers have their own tenant's outbox", async () => {
    const published: string[] = [];
    const app = await running({
      handlers: ({ outbox }) => ({
        t: async ({ messageId }) => {
          await outbox.enqueue({ topic: "out", payload: "", correlationId: messageId });
        },
      }),
      publishers: { out: ({ correlationId }, { store }) => void published.push(`${store} ${correlationId}`) },
    });
    for (const id of ids) await (await app.tenants!.inbox(id)).receive(message(`for-${id}`));
    const report = await app.dispatch(timeBudget(20_000));
    expect(report).toMatchObject({
      inbox: { acked: 3 },
      outbox: { acked: 3 },
      more: false,
      tenants: { failed: 0, left: 0, tenantBatchesSent: 0 },
    });
    expect(published.sort()).toEqual(ids.map((id) => `${id} for-${id}`));
    const none = { done: 0, dead: 0, more: false };
    expect(await app.reap(timeBudget(20_000))).toEqual({ inbox: none, outbox: none });
    expect(await app.cleanup(timeBudget(20_000))).toEqual({ inbox: none, outbox: none });
  });

  it("ADD-21 FUN-07 what handlers and publishers return goes to the outbox of their own tenant", async () => {
    const published: string[] = [];
    const note = (topic: string, store: string, correlationId: string | null) =>
      void published.push(`${store} ${correlationId} ${topic}`);
    const app = await running({
      handlers: { t: () => ({ topic: "out", data: 1 }) },
      publishers: {
        out({ topic, correlationId }, { store }) {
          note(topic, store, correlationId);
          return { topic: "after", data: 2 };
        },
        after: ({ topic, correlationId }, { store }) => note(topic, store, correlationId),
      },
    });
    for (const id of ids) await (await app.tenants!.inbox(id)).receive(message(`for-${id}`));
    expect(await app.dispatch(timeBudget(20_000))).toMatchObject({
      inbox: { acked: 3 },
      outbox: { acked: 6 },
    });
    expect(published.sort()).toEqual(ids.flatMap((id) => [`${id} for-${id} after`, `${id} for-${id} out`]));
  });

  it("ADD-12 FUN-07 acknowledges messages without a handler only where they are of a webhook source", async () => {
    const app = await running({
      sources: { shop: { scheme: "stripe", secrets: "whsec_test_secret_of_tests", tenant: "{path}" } },
      handlers: { "shop.paid": () => {}, "own.paid": () => {} },
    });
    const inbox = await app.tenants!.inbox(ids[0]!);
    for (const source of ["shop", "own"])
      await inbox.receive({ source, messageId: "1", topic: `${source}.refunded`, payload: "" });
    const report = await app.dispatch(timeBudget(20_000));
    expect(report.inbox).toMatchObject({ acked: 1, abandoned: 1, unhandled: 1 });
  });

  it("FUN-04 FUN-07 clean-up deletes the old Done messages of every tenant, and reports how many", async () => {
    const app = await running({ handlers: { t: () => {} }, retentionMs: 1 });
    for (const id of ids) await (await app.tenants!.inbox(id)).receive(message(id));
    await app.dispatch(timeBudget(20_000));
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await app.cleanup(timeBudget(20_000))).inbox).toEqual({ done: 3, dead: 0, more: false });
  });

  it("ADD-02 FUN-07 clean-up deletes the dead messages of every tenant after their retention", async () => {
    const app = await running({ deadRetentionMs: 90 * 86_400_000 });
    const clock = testClock(Date.now() - 100 * 86_400_000);
    for (const id of ids) {
      const { db } = await app.tenants!.stores(id);
      const old = createInbox(db, { clock });
      await old.markDead({ source: "s", messageId: id }, "no");
    }
    expect((await app.cleanup(timeBudget(20_000))).inbox).toEqual({ done: 0, dead: 3, more: false });
  });

  it("FUN-07 more tenants than a batch holds are sent to workers, which serve only their batches", async () => {
    const batches: TenantBatch[] = [];
    const handled: string[] = [];
    const app = await running(
      { handlers: { t: (_, { store }) => void handled.push(store) } },
      { fanOut: { send: async (batch) => void batches.push(batch) }, tenants: { tenantBatchSize: 2 } },
    );
    for (const id of ids) await (await app.tenants!.inbox(id)).receive(message(id));
    expect(await app.dispatch(timeBudget(20_000))).toMatchObject({
      inbox: null,
      tenants: { tenantBatchesSent: 2 },
    });
    expect(handled).toEqual([]);
    for (const batch of batches) {
      await app.dispatch(timeBudget(20_000), { tenantBatches: [batch] });
      expect([...handled].sort()).toEqual([...handled].sort().filter((id, i, all) => all.indexOf(id) === i));
    }
    expect(handled.sort()).toEqual(ids);
  });

  it("FUN-04 FUN-07 reaping and clean-up of more tenants than a batch holds are sent to workers, too", async () => {
    const batches: TenantBatch[] = [];
    const app = await running(
      { handlers: { t: () => {} }, retentionMs: 1 },
      { fanOut: { send: async (batch) => void batches.push(batch) }, tenants: { tenantBatchSize: 2 } },
    );
    const inboxes = await Promise.all(ids.map((id) => app.tenants!.inbox(id)));
    for (const inbox of inboxes) await inbox.receive(message("1"));
    const until = Date.now() + 60_000;
    await app.dispatch(timeBudget(20_000), { tenantBatches: [{ tenants: ids, until }] });
    for (const inbox of inboxes) {
      await inbox.receive(message("2"));
      await inbox.claim({ owner: newOwnerToken(), leaseMs: 1 });
    }
    await new Promise((resolve) => setTimeout(resolve, 5));

    await app.cleanup(timeBudget(20_000));
    await app.reap(timeBudget(20_000));
    expect(batches.map(({ job }) => job)).toEqual(["cleanup", "cleanup", "reap", "reap"]);
    for (const job of ["cleanup", "reap"])
      expect(batches.flatMap((batch) => (batch.job === job ? batch.tenants : [])).sort()).toEqual(ids);
    const counts = async () => Promise.all(inboxes.map(async (inbox) => (await inbox.stats()).counts));
    expect(await counts()).toMatchObject(ids.map(() => ({ Done: 1, Processing: 1 })));
    const report = await app.dispatch(timeBudget(20_000), { tenantBatches: batches });
    expect(report).toMatchObject({ inbox: null, outbox: null, tenants: { turns: 6, failed: 0, left: 0 } });
    expect(await counts()).toMatchObject(ids.map(() => ({ Done: 0 })));
    const left = await Promise.all(inboxes.map((inbox) => inbox.list({})));
    expect(left.flatMap(({ messages }) => messages)).toMatchObject(
      ids.map(() => ({ messageId: "2", lockedUntil: null })),
    );
  });

  it("FUN-04 FUN-07 the reaper logs the age of the oldest message of all tenants, and its tenant", async () => {
    const lines: [string, LogFields][] = [];
    const info = (line: string, fields: LogFields) => void lines.push([line, fields]);
    const app = await running({ logger: { ...silentLogger, info } });
    await (await app.tenants!.inbox("acme")).receive(message("1"));
    await new Promise((resolve) => setTimeout(resolve, 5));
    await (await app.tenants!.inbox("globex")).receive(message("2"));
    await app.reap(timeBudget(20_000));
    const [inbox, outbox] = lines.filter(([line]) => line === "queue").map(([, fields]) => fields);
    expect(inbox).toEqual({ queue: "inbox", store: "acme", oldestDueAgeMs: expect.any(Number) });
    expect(inbox!.oldestDueAgeMs).toBeGreaterThan(0);
    expect(outbox).toEqual({ queue: "outbox", oldestDueAgeMs: 0 });
  });

  it("FUN-07 a tenant batch that names a new or a removed tenant is no error", async () => {
    const handled: string[] = [];
    const app = await running({ handlers: { t: (_, { store }) => void handled.push(store) } });
    await (await app.tenants!.inbox("acme")).receive(message("1"));
    const batch = { tenants: ["acme", "gone", ""], until: Date.now() + 60_000 };
    expect(await app.dispatch(timeBudget(20_000), { tenantBatches: [batch] })).toMatchObject({
      tenants: { failed: 0, left: 0 },
    });
    expect(handled).toEqual(["acme"]);
  });

  it("FUN-06 FUN-07 a webhook wakes a worker for its own tenant, once for a burst", async () => {
    const batches: TenantBatch[] = [];
    const app = await running({ sources }, { fanOut: { send: async (batch) => void batches.push(batch) } });
    for (const [id, tenant] of [
      ["1", "acme"],
      ["2", "acme"],
      ["3", "globex"],
    ] as const)
      expect((await app.webhook(webhook(`evt_${id}`, tenant))).status).toBe(200);
    const woken = batches.map((batch) => batch.tenants.join());
    expect(new Set(woken)).toEqual(new Set(["acme", "globex"]));
    expect(batches.every((batch) => batch.woken)).toBe(true);
  });

  it("FUN-06 FUN-07 a wake-up polls a quarantined tenant at once: its webhook could be stored, so its database works again", async () => {
    const handled: string[] = [];
    let isAway = false;
    const app = await running(
      { handlers: { t: (_, { store }) => void handled.push(store) } },
      {
        tenants: {
          connections: { files: 1 }, // so that each turn opens its file
          async open(url) {
            if (isAway && url.includes("acme")) throw new Error("away");
            return openSqlite({ file: url.slice("sqlite:".length) });
          },
        },
      },
    );
    await (await app.tenants!.inbox("acme")).receive(message("1"));
    await (await app.tenants!.inbox("globex")).stats(); // so acme's is closed
    isAway = true;
    const failed = await app.dispatch(timeBudget(20_000));
    expect(failed.tenants).toMatchObject({ failed: 1 });
    isAway = false;
    const until = Date.now() + 60_000;
    const batch = { tenants: ["acme"], until };
    expect((await app.dispatch(timeBudget(20_000), { tenantBatches: [batch] })).tenants).toMatchObject({
      quarantined: 1,
    });
    expect(handled).toEqual([]);
    // Without workers a wake-up names no tenant: it is no reason to poll quarantined tenants.
    expect((await app.dispatch(timeBudget(20_000), { wokenUp: true })).tenants).toMatchObject({
      quarantined: 1,
    });
    expect(handled).toEqual([]);
    await app.dispatch(timeBudget(20_000), { tenantBatches: [{ ...batch, woken: true }] });
    expect(handled).toEqual(["acme"]);
  });

  it("FUN-07 a tenant batch that names a tenant in two spellings of its GUID gives it one turn", async () => {
    const guid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    const app = await running(
      { handlers: { t: () => {} } },
      { tenants: { discover: () => [{ id: guid, database: `sqlite:${join(folder, "guid.db")}` }] } },
    );
    const batch = { tenants: [guid, guid.toUpperCase()], until: Date.now() + 60_000 };
    const report = await app.dispatch(timeBudget(20_000), { tenantBatches: [batch] });
    expect(report.tenants).toMatchObject({ turns: 1, failed: 0 });
  });

  it("ADD-12 ADD-22 FUN-07 what the tenants' sources send besides is acknowledged, and listed as a sum over all tenants", async () => {
    const found = ["a", "b"].map((id) => ({ id, database: `sqlite:${join(folder, `besides-${id}.db`)}` }));
    const app = await running(
      { sources, handlers: ({ outbox }) => ({ "shop.paid": () => void outbox.id }) },
      { tenants: { discover: () => found } },
    );
    for (const [id, tenant] of Object.entries({ evt_1: "a", evt_2: "b", evt_3: "b" }))
      expect((await app.webhook(webhook(id, tenant))).status).toBe(200);
    expect((await app.dispatch(timeBudget(20_000))).inbox).toMatchObject({ acked: 3, unhandled: 3 });
    expect((await appStats(app)).unhandled).toEqual([
      { topic: "shop.t", messages: 3, lastSeenAt: expect.any(Date) },
    ]);
  });

  it("FUN-06 FUN-07 a GUID in capital letters wakes a worker for its tenant", async () => {
    const batches: TenantBatch[] = [];
    const handled: string[] = [];
    const guid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    let asked = 0;
    const found = () => {
      asked++;
      return [{ id: guid, database: `sqlite:${join(folder, "guid.db")}` }];
    };
    const app = await running(
      { sources, handlers: { "shop.t": (_, { store }) => void handled.push(store) } },
      { fanOut: { send: async (batch) => void batches.push(batch) }, tenants: { discover: found } },
    );
    expect((await app.webhook(webhook("evt_1", guid.toUpperCase()))).status).toBe(200);
    expect(batches.map(({ tenants }) => tenants)).toEqual([[guid]]);
    // A batch with the capital letters works, too.
    const batch = { tenants: [guid.toUpperCase()], until: Date.now() + 60_000 };
    await app.dispatch(timeBudget(20_000), { tenantBatches: [batch] });
    expect({ handled, asked }).toEqual({ handled: [guid], asked: 1 });
  });

  it("FUN-07 MID-01 a tenant that cannot be migrated does not stop the others, and the error names it", async () => {
    const found = () => [
      { id: "a-broken", database: `sqlite:${join(folder, "no-such-folder", "a.db")}` },
      ...ids.map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` })),
    ];
    const definition = defineApp({ tenants: multiTenant({ discover: found }) });
    const environment = await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" });
    const app = await openJobs(definition, { environment });
    apps.push(app);
    await expect(app.migrate()).rejects.toThrow(/^1 of 4 tenants could not be migrated: "a-broken"/);
    for (const id of ids) expect((await (await app.tenants!.inbox(id)).stats()).due).toBe(0);
  });

  it("ADD-07 FUN-07 the numbers of all tenants are the sums of those that could be read, and name the others", async () => {
    const away = { id: "away", database: `sqlite:${join(folder, "no-such-folder", "a.db")}` };
    const list = [...ids.map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` }))];
    const app = await running({}, { tenants: { discover: () => list } });
    for (const id of ids) await (await app.tenants!.inbox(id)).receive(message(id));
    expect(await appStats(app)).toMatchObject({ inbox: { due: 3 }, outbox: { due: 0 } });
    expect(await appStats(app)).not.toHaveProperty("failed");
    list.unshift(away);
    await app.tenants!.refresh();
    expect(await appStats(app)).toMatchObject({ inbox: { due: 3 }, failed: ["away"] });
  });

  it("FUN-04 FUN-07 a tenant that hangs costs reaping and clean-up no more than a poll, and is logged with its name", async () => {
    const failed: unknown[] = [];
    let isHanging = false;
    const app = await running(
      { logger: { ...silentLogger, error: (_, { store, reason }) => void failed.push([store, reason]) } },
      {
        tenants: {
          pollTimeoutMs: 100,
          turnMs: 3_600_000,
          open(url) {
            const db = openSqlite({ file: url.slice("sqlite:".length) });
            if (!url.includes("globex")) return db;
            const hang = (signal: AbortSignal | undefined) =>
              new Promise<never>((_, reject) =>
                signal?.addEventListener("abort", () => reject(signal.reason)),
              );
            const { driver } = db;
            return {
              ...db,
              driver: {
                query: (text, params, options) =>
                  isHanging ? hang(options?.signal) : driver.query(text, params, options),
                transaction: (work, options) =>
                  isHanging ? hang(options?.signal) : driver.transaction(work, options),
                close: () => driver.close(),
              },
            };
          },
        },
      },
    );
    isHanging = true;
    await app.reap(timeBudget(3_600_000));
    expect(failed).toEqual([["globex", expect.stringMatching(/within 100 ms/)]]);
  });

  it("FUN-04 FUN-07 without workers, maintenance that ran out of time waits for the next timer, and wakes no dispatcher", async () => {
    let woken = 0;
    let opened = 0;
    let remainingMs = 20_000;
    const app = await running(
      {},
      {
        wakeUp: { wake: async () => void woken++ },
        tenants: {
          concurrency: 1,
          connections: { files: 1 }, // so that each turn opens its file
          open(url) {
            if (++opened === 8) remainingMs = 400; // a turn starts, and has no time for anything
            return openSqlite({ file: url.slice("sqlite:".length) });
          },
        },
      },
    );
    opened = 6;
    const budget = { signal: new AbortController().signal, remainingMs: () => remainingMs };
    expect((await app.cleanup(budget)).inbox).toEqual({ done: 0, dead: 0, more: true });
    expect(woken).toBe(0);
  });

  it("FUN-07 ADD-08 a tenant that finds no free connection has not failed: it has its turn when one is free", async () => {
    const handled: string[] = [];
    const lines: string[] = [];
    const warn = (line: string, { store }: LogFields) => void lines.push(`${line}: ${store}`);
    let isDone = (): void => {};
    const done = new Promise<void>((resolve) => {
      isDone = resolve;
    });
    const app = await running(
      {
        logger: { ...silentLogger, warn },
        handlers: {
          async t(_, { store }) {
            // The first keeps the only slot until another tenant was logged as waiting.
            if (handled.push(store) === 1) await done;
          },
        },
      },
      { tenants: { concurrency: 3, connections: { files: 1, waitMs: 50 } } },
    );
    for (const id of ids) await (await app.tenants!.inbox(id)).receive(message(id));
    const dispatched = app.dispatch(timeBudget(20_000));
    await expect.poll(() => lines.length, { timeout: 10_000 }).toBeGreaterThan(0);
    isDone();
    expect(await dispatched).toMatchObject({ inbox: { acked: 3 }, tenants: { failed: 0, left: 0 } });
    expect(handled.sort()).toEqual(ids);
    expect(lines[0]).toMatch(/^a tenant waits for a free connection: /);
  });

  it("FUN-06 without workers, a webhook wakes the dispatcher of all tenants", async () => {
    let woken = 0;
    const app = await running({ sources }, { wakeUp: { wake: async () => void woken++ } });
    await Promise.all([app.webhook(webhook("evt_1", "acme")), app.webhook(webhook("evt_2", "globex"))]);
    expect(woken).toBe(1); // the woken dispatcher polls both
  });

  it("FUN-07 FUN-09 tenants without table names of their own have the app's", async () => {
    const handled: string[] = [];
    const own = { id: "own", database: `sqlite:${join(folder, "own.db")}`, inbox: "Mine" };
    const app = await running(
      {
        inbox: { table: "Incoming" },
        outbox: { table: "Outgoing" },
        handlers: { t: (_, { store }) => void handled.push(store) },
      },
      { tenants: { discover: async (context) => [...(await discover()(context)), own] } },
    );
    const tables = async (id: string) => (await app.tenants!.stores(id)).tables;
    expect(await tables("acme")).toEqual({ schema: undefined, inbox: "Incoming", outbox: "Outgoing" });
    expect(await tables("own")).toEqual({ schema: undefined, inbox: "Mine", outbox: "Outgoing" });
    for (const id of ["acme", "own"]) await (await app.tenants!.inbox(id)).receive(message(id));
    await app.dispatch(timeBudget(20_000));
    expect(handled.sort()).toEqual(["acme", "own"]);
    const db = openSqlite({ file: join(folder, "acme.db") });
    const rows = await db.driver.query(
      statement("tables", "select name from sqlite_master where name like 'I%'"),
      {},
    );
    await db.close();
    expect(rows.map(({ name }) => name)).toContain("Incoming");
    expect(rows.map(({ name }) => name)).not.toContain("Inbox");
  });

  it("FUN-09 refuses a database beside tenants, unknown options and invalid values", async () => {
    const tenants = multiTenant({ discover: discover() });
    expect(() => defineApp({ database: "sqlite::memory:", tenants })).toThrow(InvalidArgumentError);
    expect(() => defineApp({ tenants: {} as never })).toThrow(/multiTenant/);
    expect(() => multiTenant({ discover: discover(), size: 1 } as never)).toThrow(/size/);
    for (const wrong of [
      { periodMs: 0 },
      { periodMs: Number.NaN },
      { tenantBatchSize: 0 },
      { tenantBatchSize: 1.5 },
    ])
      expect(() => multiTenant({ discover: discover(), ...wrong })).toThrow(Object.keys(wrong)[0]);
    expect(() => multiTenant({} as never)).toThrow(/discover/);
    for (const wrong of [
      { concurrency: 0 },
      { turnMs: -1 },
      { pollTimeoutMs: Number.NaN },
      { refreshMs: 0 },
      { discoverMs: 0 },
      { connections: { perInstance: 0 } },
    ])
      expect(() => multiTenant({ discover: discover(), ...wrong })).toThrow(Object.keys(wrong)[0]);
    const app = await running({});
    expect(() => app.inbox.id).toThrow(InvalidOperationError);
  });
});
