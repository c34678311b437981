import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { interceptLocalhostDns, startFauxqs } from "fauxqs";
import { afterEach, describe, expect, it } from "vitest";
import { tenantBatchesOf } from "../../../src/adapters/aws/events.js";
import { awsFanOut } from "../../../src/adapters/aws/wake-up.js";

const before = { ...process.env };
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  process.env = { ...before };
  for (const close of closing.splice(0).reverse()) await close();
});

const credentials = { accessKeyId: "test", secretAccessKey: "test" };
const env = { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };
const batch = { tenants: ["acme", "globex"], until: 1_900_000_000_000 };
const sqsRecord = (body: string) => ({ eventSource: "aws:sqs", body });

describe("fan-out on AWS", () => {
  it("FUN-07 a tenant batch is an asynchronous invocation of the dispatch function, which reads it from the event", async () => {
    const invocations: { readonly type: unknown; readonly url: unknown; readonly event: unknown }[] = [];
    const server = createServer(async (request, response) => {
      const type = request.headers["x-amz-invocation-type"];
      invocations.push({ type, url: request.url, event: await json(request) });
      response.writeHead(202).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    Object.assign(process.env, env, { AWS_ENDPOINT_URL_LAMBDA: url });
    await awsFanOut({ dispatchFunction: "dispatch", wakeQueueUrl: undefined })!.send(batch);
    expect(invocations).toMatchObject([{ type: "Event", url: "/2015-03-31/functions/dispatch/invocations" }]);
    expect(tenantBatchesOf(invocations[0]!.event)).toEqual([batch]);
  });

  it("FUN-07 a tenant batch is a message of the queue, and the messages of one trigger are merged", async () => {
    const sqs = await startFauxqs({ port: 0, logger: false });
    closing.push(() => sqs.stop());
    const { queueUrl: url } = sqs.createQueue("tenant-batches");
    const restoreNames = interceptLocalhostDns(); // the queue's URL has a name below localhost
    closing.push(async () => restoreNames());
    const endpoint = `http://127.0.0.1:${sqs.port}`;
    Object.assign(process.env, env, { AWS_ENDPOINT_URL_SQS: endpoint });
    const fanOut = awsFanOut({ dispatchFunction: undefined, wakeQueueUrl: url })!;
    await fanOut.send(batch);
    await fanOut.send({ tenants: ["initech"], until: batch.until, woken: true });
    const client = new SQSClient({ endpoint, region: "us-east-1", credentials });
    closing.push(async () => client.destroy());
    const bodies: string[] = [];
    while (bodies.length < 2) {
      const { Messages: messages } = await client.send(
        new ReceiveMessageCommand({ QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }),
      );
      bodies.push(...(messages ?? []).map((message) => message.Body!));
    }
    const [merged] = tenantBatchesOf({ Records: bodies.map(sqsRecord) });
    expect({ ...merged, tenants: [...merged!.tenants].sort() }).toEqual({
      tenants: ["acme", "globex", "initech"],
      until: batch.until,
      woken: true,
    });
  });

  it("FUN-07 a schedule, a wake-up and other messages of the queue are no tenant batches", () => {
    expect(tenantBatchesOf({ "detail-type": "Scheduled Event" })).toEqual([]);
    expect(tenantBatchesOf({ oncebox: "wake-up" })).toEqual([]);
    expect(tenantBatchesOf({ Records: [sqsRecord("no JSON"), sqsRecord('{"oncebox":"wake-up"}')] })).toEqual(
      [],
    );
    expect(tenantBatchesOf(undefined)).toEqual([]);
    expect(awsFanOut({ dispatchFunction: undefined, wakeQueueUrl: undefined })).toBeUndefined();
  });
});
