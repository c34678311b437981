import { fileURLToPath } from "node:url";
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { startFauxqs } from "fauxqs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from "vitest";
import type { DispatchFunctionReport } from "../../../src/adapters/aws/index.js";
import { type BundleFolder, bundleTestApp } from "./bundle-folder.js";
import { type FunctionsDatabase, postgresForFunctions } from "./functions-database.js";
import { answerOf, stripeHttpEvent } from "./http-events.js";
import { startInvokeApi } from "./invoke-api.js";
import { type LambdaFunction, type LambdaOptions, lambdaFunction } from "./lambda-function.js";
import { sqsEvent } from "./sqs-event.js";

const url = inject("postgresUrl");
const localhostNames = fileURLToPath(new URL("localhost-names.cjs", import.meta.url));

/** The bundles find the AWS SDK in their runtime, as in Lambda. */
describe("waking the dispatcher on AWS", () => {
  let bundles: BundleFolder;
  let data: FunctionsDatabase;
  let closing: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    bundles = await bundleTestApp("postgres", ["@aws-sdk"]);
  });
  beforeEach(async () => {
    data = await postgresForFunctions(url);
  });
  afterEach(async () => {
    for (const close of closing.reverse()) await close();
    closing = [];
    await data.close();
  });
  afterAll(() => bundles.remove());

  const start = (
    name: string,
    env: Readonly<Record<string, string>>,
    options: Partial<LambdaOptions> = {},
  ): LambdaFunction => {
    const made = lambdaFunction({
      folder: bundles.folder,
      handler: `${name}.handler`,
      env: { ...data.env, ...env },
      ...options,
    });
    closing.push(() => made.close());
    return made;
  };
  const send = async (webhook: LambdaFunction, id: string) =>
    answerOf(await webhook.invoke<APIGatewayProxyStructuredResultV2>(stripeHttpEvent({ id })));
  const accepted = { status: 200, outcome: "enqueued" };
  /** Usually one is enough. On a busy machine a new instance may be frozen before it has loaded the SDK. */
  const sendUntil = async (webhook: LambdaFunction, isEnough: () => boolean) => {
    for (let sent = 0; sent < 1_000 && !isEnough(); sent++) {
      expect(await send(webhook, `first_${sent}`)).toEqual(accepted);
    }
    expect(isEnough()).toBe(true);
  };

  it("FUN-06 a webhook invokes the dispatch function, and a burst of them invokes it less often", async () => {
    const dispatch = start("dispatch", {});
    const api = await startInvokeApi({ dispatch });
    closing.push(() => api.close());
    const env = { ONCEBOX_DISPATCH_FUNCTION: "dispatch", AWS_ENDPOINT_URL_LAMBDA: api.url };
    const webhook = start("webhook", env, { concurrency: 1 });
    await sendUntil(webhook, () => api.events.length > 0);
    await api.settled();
    expect(api.events[0]).toEqual({ oncebox: "wake-up" });
    expect(await data.effects()).toContain("receipt of first_0");

    const burst = Array.from({ length: 50 }, (_, index) => `burst_${index}`);
    for (const id of burst) expect(await send(webhook, id)).toEqual(accepted);
    await api.settled();
    expect((await data.effects()).filter((effect) => effect.startsWith("burst")).sort()).toEqual(
      burst.sort(),
    );
    expect(api.events.length).toBeLessThan(burst.length);
  });

  it("FUN-06 when the wake-up fails the webhook is still accepted", async () => {
    const env = { ONCEBOX_DISPATCH_FUNCTION: "dispatch", AWS_ENDPOINT_URL_LAMBDA: "http://127.0.0.1:9" };
    const webhook = start("webhook", env);
    expect(await send(webhook, "evt_1")).toEqual(accepted);
    expect(webhook.logs()).toContain("afterEnqueue failed; the message is safe");
  });

  it("FUN-06 a dispatcher whose time is up wakes its successor, until everything is done", async () => {
    const ids = Array.from({ length: 60 }, (_, index) => `evt_${String(index).padStart(2, "0")}`);
    await data.inbox.enqueue(
      ids.map((messageId) => ({ source: "test", messageId, topic: "takes.long", payload: "{}" })),
    );
    const functions: Record<string, LambdaFunction> = {};
    const api = await startInvokeApi(functions);
    closing.push(() => api.close());
    const env = { ONCEBOX_DISPATCH_FUNCTION: "dispatch", AWS_ENDPOINT_URL_LAMBDA: api.url };
    functions.dispatch = start("dispatch", env, { timeoutMs: 2_000 });
    const first = await functions.dispatch.invoke<DispatchFunctionReport>({
      "detail-type": "Scheduled Event",
    });
    expect(first.more).toBe(true);
    await api.settled();
    const handled = async () => new Set(await data.effects()).size; // a handler that was cut off runs again
    // On a busy machine a run may handle nothing, and then it wakes no successor: the schedule goes on.
    while ((await handled()) < ids.length) {
      await functions.dispatch.invoke<DispatchFunctionReport>({ "detail-type": "Scheduled Event" });
      await api.settled();
    }
    expect(api.events.length).toBeGreaterThan(0);
    expect([...new Set(await data.effects())].sort()).toEqual(ids);
  });

  it("FUN-06 wake-ups by a queue: one run for all messages of a batch", async () => {
    const sqs = await startFauxqs({ port: 0, logger: false });
    closing.push(() => sqs.stop());
    const { queueUrl } = sqs.createQueue("wake");
    const endpoint = `http://127.0.0.1:${sqs.port}`;
    const credentials = { accessKeyId: "test", secretAccessKey: "test" };
    const client = new SQSClient({ endpoint, region: "us-east-1", credentials });
    closing.push(async () => client.destroy());
    const env = { ONCEBOX_WAKE_QUEUE_URL: queueUrl, NODE_OPTIONS: `--require=${localhostNames}` };
    const webhook = start("webhook", env);
    await sendUntil(webhook, () => sqs.inspectQueue("wake")!.messages.ready.length === 2);

    const received = await client.send(
      new ReceiveMessageCommand({ QueueUrl: queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }),
    );
    const messages = received.Messages ?? [];
    expect(messages.map((message) => message.Body)).toEqual([
      '{"oncebox":"wake-up"}',
      '{"oncebox":"wake-up"}',
    ]);
    const dispatch = start("dispatch", {});
    const answer = await dispatch.invoke<DispatchFunctionReport>(sqsEvent(messages));
    const { counts } = await data.inbox.stats();
    expect(answer).toMatchObject({ inbox: { acked: counts.Done }, batchItemFailures: [] });
    expect(counts).toMatchObject({ Seen: 0, Processing: 0 });
    const entries = messages.map((message, index) => ({
      Id: String(index),
      ReceiptHandle: message.ReceiptHandle!,
    }));
    await client.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries }));
  });
});
