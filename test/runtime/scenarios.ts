import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, inject, it } from "vitest";
import { createInbox, type Inbox } from "../../src/inbox/inbox.js";
import { createOutbox, type Outbox } from "../../src/outbox/outbox.js";
import { newOwnerToken } from "../../src/queue/leases.js";
import { migrate } from "../../src/sql/migrate.js";
import { signWebhook, webhookBody } from "../../src/webhooks/index.js";
import { github } from "../../src/webhooks/presets/github.js";
import { stripe } from "../../src/webhooks/presets/stripe.js";
import { rowCount } from "../contract/support/database.js";
import { type CuttableProxy, startProxy } from "../support/cuttable-proxy.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { handshakeRequests, handshakeSources } from "./handshakes.js";

/** An app's functions in a cloud's runtime, in a process of their own. */
export interface RunningFunctions {
  webhook(request: Request): Promise<Response>;
  /** The function's result. Rejects when it failed, or was killed at its time-out. */
  run(name: "dispatch" | "reap" | "cleanup"): Promise<unknown>;
  stop(): Promise<void>;
}

export interface CloudRuntime {
  readonly name: string;
  /** False where it cannot be had. */
  readonly available?: boolean;
  /** The database that the app is bundled for: PostgreSQL by default. */
  readonly database?: ScenarioDatabase;
  /** Starts test/runtime/scenario-app.ts, bundled for that database. The function's time is up after `timeoutMs`. */
  start(env: Readonly<Record<string, string>>, timeoutMs: number): Promise<RunningFunctions>;
}

export const scenarioApp = fileURLToPath(new URL("scenario-app.ts", import.meta.url));
export const scenarioSecret = "whsec_scenarios_secret_of_tests";
const secret = scenarioSecret;

/** A request that Stripe would send. */
export function stripeWebhook(id: string, type = "invoice.paid", content: object = {}): Request {
  const body = JSON.stringify({ id, type, ...content });
  const signed = signWebhook(stripe, { url: "http://localhost/webhooks/stripe", body, secrets: secret });
  return new Request(signed.url, { ...signed, body });
}

/** A database of its own, behind a connection that can be cut, and what the app needs to find it. */
export interface Scenario {
  readonly env: Readonly<Record<string, string>>;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  readonly line: CuttableProxy;
  rows(): Promise<number>;
  /** What handlers wrote, by their word: the ids in order. */
  log(word: string): Promise<string[]>;
  /** The processes that wrote. */
  processes(): Promise<Set<string>>;
  close(): Promise<void>;
}

export type ScenarioDatabase = keyof typeof servers;

const servers = {
  postgres: { url: () => inject("postgresUrl"), harness: postgresHarness, port: 5432 },
  sqlserver: { url: () => inject("sqlServerUrl"), harness: sqlServerHarness, port: 1433 },
};

export async function openScenario(database: ScenarioDatabase = "postgres"): Promise<Scenario> {
  const server = servers[database];
  const url = new URL(server.url());
  const admin = await server.harness(url.href).open();
  await migrate(admin.db, { schema: admin.schema! });
  const line = await startProxy(url.hostname, Number(url.port || server.port));
  url.hostname = "127.0.0.1";
  url.port = String(line.port);
  const folder = await mkdtemp(join(tmpdir(), "oncebox-scenario-"));
  const file = join(folder, "log");
  const lines = async () => {
    const text = await readFile(file, "utf8").catch(() => "");
    return text.split("\n").flatMap((one) => (one === "" ? [] : [one.split(" ")]));
  };
  const inbox = createInbox(admin.db, { schema: admin.schema! });
  return {
    env: {
      ONCEBOX_DATABASE_URL: url.href,
      ONCEBOX_LOG_LEVEL: "warn",
      SCENARIO_SCHEMA: admin.schema!,
      SCENARIO_LOG: file,
      SCENARIO_SECRET: secret,
    },
    inbox,
    outbox: createOutbox(admin.db, { schema: admin.schema! }),
    line,
    rows: () =>
      rowCount(
        admin,
        admin.db.dialect.names("inbox", admin.schema!, admin.db.dialect.defaults.inbox).message,
      ),
    log: async (word) => (await lines()).filter(([first]) => first === word).map(([, id]) => id!),
    processes: async () => new Set((await lines()).map(([, , pid]) => pid!)),
    async close() {
      await line.cut().catch(() => {}); // it may be cut already
      await admin.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const ids = (count: number, prefix: string) => Array.from({ length: count }, (_, i) => `${prefix}_${i}`);

async function answerOf(response: Response): Promise<{ status: number; outcome: string | undefined }> {
  const { outcome } = (await response.json()) as { outcome?: string };
  return { status: response.status, outcome };
}

/** What every cloud's functions do alike. */
export function describeFunctions(runtime: CloudRuntime): void {
  describe.skipIf(runtime.available === false)(`functions in ${runtime.name}`, () => {
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
    });

    const opened = async (): Promise<Scenario> => {
      const scenario = await openScenario(runtime.database);
      closing.push(() => scenario.close());
      return scenario;
    };
    const started = async (
      scenario: Pick<Scenario, "env">,
      timeoutMs = 60_000,
    ): Promise<RunningFunctions> => {
      const functions = await runtime.start(scenario.env, timeoutMs);
      closing.push(() => functions.stop());
      return functions;
    };

    it("FUN-01 FUN-03 FUN-04 webhooks are stored once or refused, handled once, reaped and cleaned up", async () => {
      const scenario = await opened();
      const functions = await started(scenario);
      const send = async (request: Request) => answerOf(await functions.webhook(request));

      expect(await send(stripeWebhook("evt_1"))).toEqual({ status: 200, outcome: "enqueued" });
      expect(await send(stripeWebhook("evt_1"))).toEqual({ status: 200, outcome: "duplicate" });
      const forged = stripeWebhook("evt_2");
      forged.headers.set("stripe-signature", `t=${Math.floor(Date.now() / 1_000)},v1=${"0".repeat(64)}`);
      expect((await send(forged)).status).toBe(401);
      expect((await send(stripeWebhook("evt_3", "invoice.paid", { fill: "x".repeat(70_000) }))).status).toBe(
        413,
      );
      expect((await send(new Request("http://localhost/webhooks/stripe", { method: "PUT" }))).status).toBe(
        405,
      );

      await scenario.line.cut();
      const refused = await functions.webhook(stripeWebhook("evt_4"));
      expect(refused.status).toBe(503);
      expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
      await scenario.line.mend();
      expect(await send(stripeWebhook("evt_4"))).toEqual({ status: 200, outcome: "enqueued" });
      expect(await scenario.rows()).toBe(2);

      expect(await functions.run("dispatch")).toMatchObject({ inbox: { acked: 2 }, outbox: { acked: 2 } });
      expect((await scenario.log("handled")).sort()).toEqual(["evt_1", "evt_4"]);
      expect((await scenario.log("published")).sort()).toEqual(["evt_1", "evt_4"]);
      expect(await send(stripeWebhook("evt_1"))).toEqual({ status: 200, outcome: "done" });

      // A worker claimed a message and crashed.
      await send(stripeWebhook("evt_5"));
      expect(await scenario.inbox.claim({ owner: newOwnerToken(), batchSize: 1, leaseMs: 1 })).toHaveLength(
        1,
      );
      expect(await functions.run("reap")).toMatchObject({ inbox: { done: 1 }, outbox: { done: 0 } });
      const cleaning = await started({
        env: { ...scenario.env, TEST_RETENTION_MS: "1" },
      });
      expect(await cleaning.run("cleanup")).toMatchObject({ inbox: { done: 2 }, outbox: { done: 2 } });
      expect(await scenario.rows()).toBe(1);
    });

    it("FUN-01 FUN-02 the bytes of a body are what was signed, whatever they are", async () => {
      const scenario = await opened();
      const sources = { forms: { scheme: "github", secrets: [secret] } }; // a source that only the environment has
      const functions = await runtime.start(
        { ...scenario.env, ONCEBOX_WEBHOOKS: JSON.stringify(sources) },
        60_000,
      );
      closing.push(() => functions.stop());
      const body = Buffer.from([0xef, 0xbb, 0xbf, ...Array(256).keys()]); // a byte order mark, and no UTF-8
      const { url, ...signed } = signWebhook(github, {
        url: "http://localhost/webhooks/forms",
        body,
        secrets: secret,
        messageId: "delivery-1",
        topic: "push",
        headers: { "content-type": "application/x-www-form-urlencoded" },
      });
      const answer = await functions.webhook(new Request(url, { ...signed, body }));
      expect(await answerOf(answer)).toEqual({ status: 200, outcome: "enqueued" });
      const [stored] = await scenario.inbox.claim({ owner: newOwnerToken(), batchSize: 1, leaseMs: 1_000 });
      expect(Buffer.from(webhookBody(stored!))).toEqual(body);
    });

    it("FUN-01 handshakes come through by whatever method providers ask, and are declared in the environment", async () => {
      const scenario = await opened();
      const env = { ...scenario.env, ONCEBOX_WEBHOOKS: JSON.stringify(handshakeSources) };
      const functions = await runtime.start(env, 60_000);
      closing.push(() => functions.stop());
      for (const { method, path, headers = {}, expected } of handshakeRequests) {
        const answer = await functions.webhook(new Request(`http://localhost${path}`, { method, headers }));
        const found = [answer.status, await answer.text(), answer.headers.get("webhook-allowed-origin")];
        expect(found, `${method} ${path}`).toEqual(expected);
      }
      expect(await scenario.rows()).toBe(0);
    });

    it("FUN-05 overlapping dispatch invocations, in one instance and in two, handle each message once", async () => {
      const scenario = await opened();
      const [one, two] = await Promise.all([started(scenario), started(scenario)]);
      await Promise.all([one.run("dispatch"), two.run("dispatch")]); // both are connected before there is work
      const all = ids(400, "evt");
      await scenario.inbox.enqueue(
        all.map((messageId) => ({
          source: "stripe",
          messageId,
          topic: "stripe.invoice.paid",
          payload: "{}",
        })),
      );
      await Promise.all([one.run("dispatch"), one.run("dispatch"), two.run("dispatch")]);
      expect((await scenario.log("handled")).sort()).toEqual([...all].sort());
      expect((await scenario.processes()).size).toBe(2);
      // Two ran at the same time: an outbox message may have been enqueued after the last poll.
      await one.run("dispatch");
      expect((await scenario.log("published")).sort()).toEqual([...all].sort());
    });

    it("FUN-01 200 webhooks at the same time, of which half are duplicates, are 100 rows", async () => {
      const scenario = await opened();
      const functions = await started(scenario);
      const all = ids(100, "evt");
      const answers = await Promise.all(
        [...all, ...all].map(async (id) => answerOf(await functions.webhook(stripeWebhook(id)))),
      );
      expect(answers.every(({ status }) => status === 200)).toBe(true);
      expect(answers.filter(({ outcome }) => outcome === "enqueued")).toHaveLength(100);
      expect(answers.filter(({ outcome }) => outcome === "duplicate")).toHaveLength(100);
      expect(await scenario.rows()).toBe(100);
    });

    it("FUN-03 FUN-05 a kill at the function's time-out loses nothing", async () => {
      const scenario = await opened();
      const doomed = await started(scenario, 3_000);
      const all = ids(30, "evt");
      for (const [index, id] of all.entries()) {
        const type = index === 12 ? "stuck" : "invoice.paid";
        expect((await doomed.webhook(stripeWebhook(id, type))).status).toBe(200);
      }
      await expect(doomed.run("dispatch")).rejects.toThrow();
      expect(await scenario.log("stuck")).toEqual(["evt_12"]);
      expect((await scenario.inbox.stats()).counts.Done).toBeLessThan(all.length);

      const functions = await started(scenario);
      // The killed process's messages are claimable when its leases have expired.
      while ((await scenario.inbox.stats()).counts.Done < all.length) {
        await functions.run("reap");
        await functions.run("dispatch");
      }
      expect(new Set(await scenario.log("handled"))).toEqual(new Set(all));
      await functions.run("dispatch");
      expect(new Set(await scenario.log("published"))).toEqual(new Set(all.filter((id) => id !== "evt_12")));
      expect((await scenario.inbox.stats()).counts.Dead).toBe(0);
    });
  });
}
