import { fileURLToPath } from "node:url";
import { ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { startFauxqs } from "fauxqs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { DispatchFunctionReport } from "../../../src/adapters/aws/index.js";
import { tenantBatchIn } from "../../../src/tenants/fan-out/tenant-batch.js";
import { type BundleFolder, bundleTestApp } from "../aws/bundle-folder.js";
import { answerOf, stripeHttpEvent, webhookSecret } from "../aws/http-events.js";
import { type InvokeApi, startInvokeApi } from "../aws/invoke-api.js";
import { type LambdaFunction, type LambdaOptions, lambdaFunction } from "../aws/lambda-function.js";
import { sqsEvent } from "../aws/sqs-event.js";
import { openTenantScenario, type TenantScenario, tenantApp } from "./tenant-scenario.js";

const localhostNames = fileURLToPath(new URL("../aws/localhost-names.cjs", import.meta.url));
const schedule = { "detail-type": "Scheduled Event", source: "aws.events" };

/** The bundles as they would be deployed, under Amazon's runtime, started by Lambda's own call. */
describe("tenants of many databases on Lambda", () => {
  let bundles: BundleFolder;
  let scenario: TenantScenario;
  let closing: (() => Promise<unknown>)[] = [];
  /** Events that the platform loses. */
  let isLost: (event: unknown) => boolean;

  beforeAll(async () => {
    bundles = await bundleTestApp("postgres", ["@aws-sdk"], tenantApp);
  });
  beforeEach(async () => {
    isLost = () => false;
    scenario = await openTenantScenario(10, webhookSecret);
  });
  afterEach(async () => {
    for (const close of closing.reverse()) await close();
    closing = [];
    await scenario.close();
  });
  afterAll(() => bundles?.remove());

  const lambda = (
    name: string,
    env: Readonly<Record<string, string>>,
    options: Partial<LambdaOptions> = {},
  ) => {
    const made = lambdaFunction({
      folder: bundles.folder,
      handler: `${name}.handler`,
      env: { ...scenario.env, ...env },
      concurrency: 3,
      ...options,
    });
    closing.push(() => made.close());
    return made;
  };
  const started = async (options: Partial<LambdaOptions> = {}, more: Record<string, string> = {}) => {
    const functions: Record<string, LambdaFunction> = {};
    const api = await startInvokeApi(functions);
    closing.push(() => api.close());
    const env = { ONCEBOX_DISPATCH_FUNCTION: "dispatch", AWS_ENDPOINT_URL_LAMBDA: api.url, ...more };
    const start = (name: string): LambdaFunction => lambda(name, env, options);
    const dispatch = start("dispatch");
    functions.dispatch = {
      ...dispatch,
      started: 0,
      invoke: async <Result>(event: unknown) =>
        isLost(event) ? (undefined as Result) : dispatch.invoke<Result>(event),
    };
    const timer = () => dispatch.invoke<DispatchFunctionReport>(schedule);
    return { api, start, timer };
  };
  const sentBatches = (api: InvokeApi) => api.events.map((event) => tenantBatchIn(event)!);

  it("FUN-07 the timer sends tenant batches to other invocations, which handle every tenant's messages once", async () => {
    const messages = await scenario.fill("evt");
    const { api, timer } = await started();
    expect(await timer()).toMatchObject({
      inbox: null,
      outbox: null,
      tenants: { tenantBatchesSent: 3, turns: 0 },
    });
    await api.settled();
    await scenario.expectHandled(messages);
    const tenants = sentBatches(api).flatMap((batch) => batch.tenants);
    expect(tenants.sort()).toEqual([...scenario.ids].sort());
    expect((await scenario.processes()).size).toBeGreaterThan(1);
  });

  it("FUN-07 with a queue, as it is deployed: a message is a tenant batch, and one worker gets the messages of one trigger", async () => {
    const messages = await scenario.fill("evt");
    const sqs = await startFauxqs({ port: 0, logger: false });
    closing.push(() => sqs.stop());
    const { queueUrl: QueueUrl } = sqs.createQueue("tenant-batches");
    const client = new SQSClient({
      endpoint: `http://127.0.0.1:${sqs.port}`,
      useQueueUrlAsEndpoint: false,
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "test" },
    });
    closing.push(async () => client.destroy());
    const env = { ONCEBOX_WAKE_QUEUE_URL: QueueUrl, NODE_OPTIONS: `--require=${localhostNames}` };
    const dispatch = lambda("dispatch", env);
    expect(await dispatch.invoke(schedule)).toMatchObject({ tenants: { tenantBatchesSent: 3 } });
    const take = async (MaxNumberOfMessages: number) => {
      const { Messages = [] } = await client.send(
        new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages }),
      );
      expect(Messages).toHaveLength(MaxNumberOfMessages);
      return Messages;
    };
    const batches = [await take(1), await take(2)];
    const results = await Promise.all(
      batches.map((batch) => dispatch.invoke<DispatchFunctionReport>(sqsEvent(batch))),
    );
    expect(results.map(({ batchItemFailures }) => batchItemFailures)).toEqual([[], []]);
    await scenario.expectHandled(messages);
  });

  it("FUN-07 a worker whose time is over sends on the tenants that it did not reach", async () => {
    const messages = await scenario.fill("evt", "slow");
    const { api, timer } = await started({ timeoutMs: 5_000 });
    await timer();
    // On a busy machine a run may finish nothing, and then sends nothing on: the timer continues.
    const handled = async () => new Set(await scenario.log("handled")).size;
    for (;;) {
      await api.settled();
      if ((await handled()) === messages.length) break;
      await timer();
    }
    expect(sentBatches(api).length).toBeGreaterThan(3);
    expect([...new Set(await scenario.log("handled"))]).toEqual([...messages].sort());
  }, 120_000);

  it("FUN-07 the tenants of a lost batch are served after the next timer", async () => {
    const messages = await scenario.fill("evt");
    const { api, timer } = await started();
    isLost = (event) => tenantBatchIn(event)!.tenants.includes("p9");
    await timer();
    await api.settled();
    const lost = new Set(sentBatches(api).find((batch) => batch.tenants.includes("p9"))!.tenants);
    const isReached = (message: string) => !lost.has(message.split(" ")[0]!);
    await scenario.expectHandled(messages.filter(isReached));
    isLost = () => false;
    await timer();
    await api.settled();
    await scenario.expectHandled(messages);
  });

  it("FUN-01 FUN-06 FUN-07 a webhook with the tenant in its path wakes a worker for only that tenant", async () => {
    const { api, start } = await started();
    const webhook = start("webhook");
    const send = async (id: string, tenant: string) => {
      const event = stripeHttpEvent({ id, rawPath: `/prod/webhooks/stripe/${tenant}` });
      return answerOf(await webhook.invoke<APIGatewayProxyStructuredResultV2>(event));
    };
    expect(await send("evt_none", "nobody")).toMatchObject({ status: 503 });
    // Usually one is enough; but on a busy machine a new instance may be frozen before it has loaded the SDK.
    const sent: string[] = [];
    while (api.events.length === 0) {
      expect(await send(`evt_${sent.length}`, "p7")).toEqual({ status: 200, outcome: "enqueued" });
      sent.push(`p7 evt_${sent.length}`);
    }
    await api.settled();
    expect(sentBatches(api)[0]).toMatchObject({ tenants: ["p7"], woken: true });
    expect(await scenario.log("handled")).toContain(sent[0]);
  });

  it("FUN-04 FUN-07 reaping and clean-up are sent to workers, too", async () => {
    const { api, start, timer } = await started({}, { TEST_RETENTION_MS: "1" });
    await scenario.fill("evt");
    await timer();
    await api.settled();
    const done = async () => {
      const inboxes = await Promise.all(scenario.ids.map((id) => scenario.stores.inbox(id)));
      const counts = await Promise.all(inboxes.map(async (inbox) => (await inbox.stats()).counts.Done));
      return counts.reduce((sum, count) => sum + count, 0);
    };
    expect(await done()).toBe(135);
    for (const name of ["reap", "cleanup"]) await start(name).invoke(schedule);
    await api.settled();
    const jobs = sentBatches(api).map((batch) => batch.job);
    expect(jobs.filter((job) => job !== undefined)).toEqual([
      ...Array(3).fill("reap"),
      ...Array(3).fill("cleanup"),
    ]);
    expect(await done()).toBe(0);
  });
});
