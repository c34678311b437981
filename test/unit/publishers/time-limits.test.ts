import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { EventBridgeClient } from "@aws-sdk/client-eventbridge";
import { SNSClient } from "@aws-sdk/client-sns";
import { SQSClient } from "@aws-sdk/client-sqs";
import { QueueClient } from "@azure/storage-queue";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  eventBridgePublisher,
  functionPublisher,
  type Publisher,
  type PublisherOptions,
  snsPublisher,
  sqsPublisher,
  storageQueuePublisher,
  webhookPublisher,
} from "../../../src/publishers/index.js";

const message = {
  id: "0190a5e0-0000-7000-8000-000000000001",
  messageId: "0190a5e0-0000-7000-8000-000000000002",
  topic: "order.placed",
  payload: '{"n":1}',
  headers: null,
  correlationId: null,
};

describe("a destination that takes the request and never answers", () => {
  let server: Server;
  let url: string;
  let arrived = (): void => {};
  let aborted = (): void => {};
  beforeAll(async () => {
    server = createServer((request) => {
      request.resume();
      request.socket.once("close", () => aborted());
      arrived();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const aws = () => ({
    endpoint: url,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
  });
  const key = Buffer.from("not a secret").toString("base64");
  const storage = () =>
    `DefaultEndpointsProtocol=http;AccountName=a;AccountKey=${key};QueueEndpoint=${url}/a;`;
  const publishers: Readonly<Record<string, (options: PublisherOptions) => Publisher>> = {
    SQS: (options) => sqsPublisher({ ...options, queueUrl: `${url}/1/orders`, client: new SQSClient(aws()) }),
    SNS: (options) =>
      snsPublisher({ ...options, topicArn: "arn:aws:sns:us-east-1:1:t", client: new SNSClient(aws()) }),
    EventBridge: (options) =>
      eventBridgePublisher({ ...options, source: "s", client: new EventBridgeClient(aws()) }),
    "Storage queue": (options) =>
      storageQueuePublisher({ ...options, queue: new QueueClient(storage(), "orders") }),
    webhook: (options) =>
      webhookPublisher({
        ...options,
        allowHttp: true,
        allowPrivateAddresses: true,
        url,
        secrets: `whsec_${Buffer.alloc(24).toString("base64")}`,
      }),
    function: (options) =>
      functionPublisher({
        ...options,
        destination: "The shop",
        publish: async (_, { signal }) => void (await fetch(url, { signal })),
      }),
  };

  const waiting = () => ({
    isThere: new Promise<void>((resolve) => {
      arrived = resolve;
    }),
    isAborted: new Promise<void>((resolve) => {
      aborted = resolve;
    }),
  });

  it.each(Object.keys(publishers))("ADD-10 %s: the request is aborted when the time is up", async (name) => {
    let isSent = false;
    // a busy machine may not have sent the request before the time is up: then there is more of it
    for (let timeoutMs = 300; !isSent; timeoutMs *= 4) {
      const publish = publishers[name]!({ timeoutMs });
      const { isThere, isAborted } = waiting();
      void isThere.then(() => {
        isSent = true;
      });
      const { signal } = new AbortController();
      await expect(publish(message, { signal })).rejects.toThrow(`within ${timeoutMs} ms`);
      if (isSent) await isAborted;
    }
  });

  it.each(Object.keys(publishers))(
    "ADD-10 %s: the request is aborted with the handler's signal",
    async (name) => {
      const publish = publishers[name]!({});
      const { isThere, isAborted } = waiting();
      const stopping = new AbortController();
      const end = publish(message, { signal: stopping.signal }).catch((error: unknown) => error);
      await isThere;
      stopping.abort();
      expect(await end).toBeInstanceOf(Error);
      await isAborted;
    },
  );

  it("ADD-10 a function that ignores its signal does not keep the breaker open for ever", async () => {
    let hangs = true;
    const publish = functionPublisher({
      destination: "The shop",
      timeoutMs: 20,
      breaker: { failures: 1, openMs: 20 },
      publish: () => (hangs ? new Promise(() => {}) : Promise.resolve()),
    });
    const { signal } = new AbortController();
    const trial = async () => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      return publish(message, { signal });
    };
    await expect(publish(message, { signal })).rejects.toThrow(/within 20 ms/);
    await expect(trial()).rejects.toThrow(/within 20 ms/);
    hangs = false;
    await trial();
    await publish(message, { signal });
  });
});
