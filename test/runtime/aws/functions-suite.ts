import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { DispatchReport, MaintenanceReport } from "../../../src/index.js";
import type { BundledDatabase } from "../../../src/packaging/own-package.js";
import { handshakeRequests, handshakeSources } from "../handshakes.js";
import { type BundleFolder, bundleTestApp } from "./bundle-folder.js";
import type { FunctionsDatabase } from "./functions-database.js";
import { answerOf, httpEvent, stripeHttpEvent } from "./http-events.js";
import { type LambdaFunction, type LambdaOptions, lambdaFunction } from "./lambda-function.js";

/** EventBridge's event of a schedule. */
const schedule = { source: "aws.events", "detail-type": "Scheduled Event", detail: {} };

const numbered = (count: number, prefix = "evt") =>
  Array.from({ length: count }, (_, index) => `${prefix}_${String(index).padStart(3, "0")}`);

export interface SuiteOptions {
  readonly database: BundledDatabase;
  readonly provided?: readonly string[];
  readonly open: () => Promise<FunctionsDatabase>;
}

/** Runs the bundles under Amazon's runtime, from the webhook to the clean-up. */
export function functionsSuite({ database, provided = [], open }: SuiteOptions): void {
  describe(`Lambda functions on ${database}`, () => {
    let bundles: BundleFolder;
    let data: FunctionsDatabase;
    let running: LambdaFunction[] = [];

    beforeAll(async () => {
      bundles = await bundleTestApp(database, provided);
    });
    beforeEach(async () => {
      data = await open();
    });
    afterEach(async () => {
      await Promise.all(running.map((one) => one.close()));
      running = [];
      await data.close();
    });
    afterAll(() => bundles.remove());

    const start = (name: string, options: Partial<LambdaOptions> = {}): LambdaFunction => {
      const made = lambdaFunction({
        folder: bundles.folder,
        handler: `${name}.handler`,
        env: data.env,
        ...options,
      });
      running.push(made);
      return made;
    };
    const send = async (webhook: LambdaFunction, event: Parameters<typeof stripeHttpEvent>[0]) =>
      answerOf(await webhook.invoke<APIGatewayProxyStructuredResultV2>(stripeHttpEvent(event)));
    const enqueue = (topic: string, ids: readonly string[]) =>
      data.inbox.enqueue(ids.map((messageId) => ({ source: "test", messageId, topic, payload: "{}" })));

    it("FUN-01 FUN-03 FUN-04 a webhook is verified, deduplicated, handled once, published, and cleaned up", async () => {
      const webhook = start("webhook");
      expect(await send(webhook, { id: "evt_1" })).toEqual({ status: 200, outcome: "enqueued" });
      expect(await send(webhook, { id: "evt_1" })).toEqual({ status: 200, outcome: "duplicate" });
      expect(await send(webhook, { id: "evt_2", secret: "whsec_wrong" })).toMatchObject({ status: 401 });
      expect(await send(webhook, { id: "evt_3", padding: 40_000 })).toMatchObject({ status: 413 });
      expect(webhook.started).toBe(1);

      const dispatch = start("dispatch");
      const report = await dispatch.invoke<DispatchReport>(schedule);
      expect(report).toMatchObject({ inbox: { acked: 1 }, outbox: { acked: 1 }, more: false });
      expect(await dispatch.invoke<DispatchReport>(schedule)).toMatchObject({ inbox: { claimed: 0 } });
      expect(await data.effects()).toEqual(["evt_1", "receipt of evt_1"]);
      expect(await send(webhook, { id: "evt_1" })).toEqual({ status: 200, outcome: "done" });

      const [reaped, cleaned] = await Promise.all([
        start("reap").invoke<MaintenanceReport>(schedule),
        start("cleanup", { env: { ...data.env, TEST_RETENTION_MS: "1" } }).invoke<MaintenanceReport>(
          schedule,
        ),
      ]);
      expect(reaped).toEqual({
        inbox: { done: 0, dead: 0, more: false },
        outbox: { done: 0, dead: 0, more: false },
      });
      expect(cleaned).toMatchObject({ inbox: { done: 1 }, outbox: { done: 1 } });
      expect(webhook.logs()).not.toContain("whsec_");
    });

    it("FUN-01 handshakes of every method reach the route, and are declared in the environment", async () => {
      const env = { ...data.env, ONCEBOX_WEBHOOKS: JSON.stringify(handshakeSources) };
      const webhook = start("webhook", { env });
      for (const { method, path, headers = {}, expected } of handshakeRequests) {
        const [rawPath = "", rawQueryString = ""] = path.split("?");
        const event = httpEvent({ method, rawPath: `/prod${rawPath}`, rawQueryString, headers });
        const answer = await webhook.invoke<APIGatewayProxyStructuredResultV2>(event);
        const allowed = answer.headers?.["webhook-allowed-origin"] ?? null;
        expect([answer.statusCode, answer.body, allowed], `${method} ${path}`).toEqual(expected);
      }
    });

    it("FUN-01 FUN-12 a database that is away: 503 with Retry-After; the same instance accepts the retry", async () => {
      const away = await data.away();
      const webhook = start("webhook", { env: away.env });
      const refused = await webhook.invoke<APIGatewayProxyStructuredResultV2>(
        stripeHttpEvent({ id: "evt_1" }),
      );
      expect(refused).toMatchObject({
        statusCode: 503,
        headers: { "retry-after": expect.stringMatching(/^\d+$/) },
        body: '{"error":"unavailable"}',
      });
      await away.bringBack();
      expect(await send(webhook, { id: "evt_1" })).toEqual({ status: 200, outcome: "enqueued" });
      expect(webhook.started).toBe(1);
    });

    it("FUN-01 200 concurrent webhooks, half of them duplicates: 100 rows", async () => {
      const webhook = start("webhook", { concurrency: 4 });
      const ids = numbered(100);
      const answers = await Promise.all([...ids, ...ids].map((id) => send(webhook, { id })));
      const count = (outcome: string) => answers.filter((answer) => answer.outcome === outcome).length;
      expect({ enqueued: count("enqueued"), duplicate: count("duplicate") }).toEqual({
        enqueued: 100,
        duplicate: 100,
      });
      const { counts } = await data.inbox.stats();
      expect(Object.values(counts).reduce((sum, rows) => sum + rows, 0)).toBe(100);
      expect(webhook.started).toBe(4);
    });

    it("FUN-05 two dispatch invocations that overlap handle each message once", async () => {
      const ids = numbered(120);
      await enqueue("two.needed", ids);
      const dispatch = start("dispatch");
      const reports = await Promise.all([
        dispatch.invoke<DispatchReport>(schedule),
        dispatch.invoke<DispatchReport>(schedule),
      ]);
      const acked = reports.map((report) => report.inbox!.acked);
      expect(acked[0]! + acked[1]!).toBe(120);
      expect(Math.min(...acked)).toBeGreaterThan(0);
      expect(await data.effects()).toEqual(ids);
    });

    it("FUN-03 a function that is killed at its time-out loses nothing", async () => {
      await enqueue("keeps.thread", ["evt_hang"]);
      await enqueue("stripe.invoice.paid", numbered(5));
      const dispatch = start("dispatch", { timeoutMs: 2_000 });
      await expect(dispatch.invoke(schedule)).rejects.toThrow("Task timed out");
      const reap = start("reap");
      // The leases of the killed function expire by the database's clock.
      await expect
        .poll(async () => (await reap.invoke<MaintenanceReport>(schedule)).inbox.done, { timeout: 20_000 })
        .toBeGreaterThan(0);
      await expect
        .poll(
          async () => {
            await dispatch.invoke(schedule);
            return (await data.inbox.stats()).counts;
          },
          { timeout: 20_000 },
        )
        .toMatchObject({ Done: 6 });
      expect(new Set(await data.effects())).toEqual(
        new Set(["evt_hang", ...numbered(5), ...numbered(5).map((id) => `receipt of ${id}`)]),
      );
      expect(dispatch.started).toBe(2);
    });

    it("FUN-03 a run ends before the function's time does, with work left", async () => {
      await enqueue("takes.long", numbered(200));
      const report = await start("dispatch", { timeoutMs: 2_500 }).invoke<DispatchReport>(schedule);
      expect(report).toMatchObject({ more: true, inbox: { stopped: "time", lost: 0 } });
      expect(report.inbox!.acked).toBeGreaterThan(0);
    });

    const hasNoConnections = database === "sqlite";
    it.skipIf(hasNoConnections)(
      "FUN-12 connections that died while the function was frozen do not fail the next invocation",
      async () => {
        const webhook = start("webhook");
        expect(await send(webhook, { id: "evt_1" })).toMatchObject({ status: 200 });
        await webhook.untilFrozen();
        await data.dropConnections();
        expect(await send(webhook, { id: "evt_2" })).toEqual({ status: 200, outcome: "enqueued" });
        expect(webhook.started).toBe(1);
      },
    );
  });
}
