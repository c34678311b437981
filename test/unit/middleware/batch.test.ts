import type { SQSEvent, SQSRecord } from "aws-lambda";
import { describe, expect, it } from "vitest";
import { sqsHandler, sqsMessage } from "../../../src/adapters/aws/middleware.js";
import { serviceBusHandler, storageQueueHandler } from "../../../src/adapters/azure/middleware.js";
import type { TriggerMessage } from "../../../src/middleware/index.js";
import { toEnvelope } from "../../../src/publishers/azure.js";

const record = (messageId: string, body: string, group?: string): SQSRecord =>
  ({
    messageId,
    body,
    attributes: { ApproximateReceiveCount: "2", ...(group === undefined ? {} : { MessageGroupId: group }) },
    messageAttributes: {},
  }) as unknown as SQSRecord;
const event = (...records: SQSRecord[]): SQSEvent => ({ Records: records });
const failedOf = (response: { batchItemFailures: { itemIdentifier: string }[] }) =>
  response.batchItemFailures.map((failure) => failure.itemIdentifier);

/** Fails for the body "bad", and records the ids that it saw. */
const recorder = () => {
  const seen: string[] = [];
  return {
    seen,
    handle: async (message: TriggerMessage) => {
      seen.push(message.messageId);
      await Promise.resolve();
      if (message.payload === "bad") throw new Error("bad");
    },
  };
};

describe("SQS batches", () => {
  it("MID-11 reports only what failed, in the order of the batch", async () => {
    const { handle, seen } = recorder();
    const handler = sqsHandler({ handle, concurrency: 2 });
    const response = await handler(
      event(record("1", "ok"), record("2", "bad"), record("3", "ok"), record("4", "bad"), record("5", "ok")),
    );
    expect(failedOf(response)).toEqual(["2", "4"]);
    expect(seen.sort()).toEqual(["1", "2", "3", "4", "5"]);
    expect(failedOf(await handler(event()))).toEqual([]);
  });

  it("MID-11 after a failure, no later message of its FIFO group is handled; other groups go on", async () => {
    const { handle, seen } = recorder();
    const response = await sqsHandler({ handle, concurrency: 3 })(
      event(
        record("a1", "ok", "a"),
        record("b1", "bad", "b"),
        record("a2", "bad", "a"),
        record("b2", "ok", "b"),
        record("a3", "ok", "a"),
        record("c1", "ok", "c"),
      ),
    );
    expect(failedOf(response)).toEqual(["b1", "a2", "b2", "a3"]);
    expect(seen.sort()).toEqual(["a1", "a2", "b1", "c1"]);
  });

  it("MID-11 groups of a queue that is not FIFO block no message", async () => {
    const { handle, seen } = recorder();
    const fair = (id: string, body: string) => ({
      ...record(id, body, "tenant"),
      eventSourceARN: "arn:aws:sqs:us-east-1:000000000000:orders",
    });
    const response = await sqsHandler({ handle })(event(fair("1", "bad"), fair("2", "ok"), fair("3", "ok")));
    expect(failedOf(response)).toEqual(["1"]);
    expect(seen.sort()).toEqual(["1", "2", "3"]);
  });

  it("MID-11 messages that cannot be started in the function's time go back to the queue", async () => {
    const { handle, seen } = recorder();
    let left = 2_500;
    const context = { getRemainingTimeInMillis: () => (left -= 1_000) };
    const response = await sqsHandler({ handle, concurrency: 1 })(
      event(record("1", "ok"), record("2", "ok"), record("3", "ok")),
      context,
    );
    expect(seen).toEqual(["1"]);
    expect(failedOf(response)).toEqual(["2", "3"]);
  });

  it("MID-11 maps ids and attributes; the sender's id is preferred to the queue's", () => {
    const text = (value: string) => ({ stringValue: value, dataType: "String" });
    expect(
      sqsMessage({
        ...record("sqs-id", "body", "g"),
        messageAttributes: {
          messageId: text("own-id"),
          topic: text("order.placed"),
          correlationId: text("c"),
          headers: text('{"a":"b"}'),
        },
      } as unknown as SQSRecord),
    ).toEqual({
      messageId: "own-id",
      topic: "order.placed",
      type: "order.placed",
      payload: "body",
      headers: { a: "b" },
      correlationId: "c",
      partitionKey: "g",
      deliveries: 2,
    });
    const foreign = {
      ...record("i", "b"),
      messageAttributes: { headers: text("no JSON") },
    } as unknown as SQSRecord;
    expect(sqsMessage(foreign)).toMatchObject({
      messageId: "i",
      topic: "sqs",
      headers: null,
      partitionKey: null,
    });
  });

  it("MID-11 options are checked when the handler is made", async () => {
    const { handle } = recorder();
    expect(() => sqsHandler({ handle, concurency: 1 } as never)).toThrow(/concurency/);
    expect(() => sqsHandler({} as never)).toThrow(/handle/);
    expect(() => sqsHandler({ handle, concurrency: 0 })).toThrow(/concurrency/);
    expect(() => sqsHandler({ handle, deadLetters: {} as never })).toThrow(/subscriber/);
    await expect(sqsHandler({ handle })({} as never)).rejects.toThrow(/SQS/);
  });
});

describe("Azure queue triggers", () => {
  const context = (triggerMetadata: Record<string, unknown>) => ({ triggerMetadata }) as never;
  const collect = () => {
    const seen: TriggerMessage[] = [];
    return { seen, handle: async (message: TriggerMessage) => void seen.push(message) };
  };

  it("MID-11 a Service Bus message is mapped, and what the handler throws is thrown", async () => {
    const { seen, handle } = collect();
    const metadata = {
      messageId: "m",
      deliveryCount: 3,
      correlationId: "c",
      sessionId: "s",
      applicationProperties: { topic: "order.placed", headers: '{"a":"b"}' },
    };
    await serviceBusHandler({ handle })({ parsed: "by the host" }, context(metadata));
    expect(seen).toEqual([
      {
        messageId: "m",
        topic: "order.placed",
        type: "order.placed",
        payload: '{"parsed":"by the host"}',
        headers: { a: "b" },
        correlationId: "c",
        partitionKey: "s",
        deliveries: 3,
      },
    ]);
    const failing = serviceBusHandler({
      handle: () => {
        throw new Error("the business says no");
      },
    });
    await expect(failing("x", context(metadata))).rejects.toThrow("the business says no");
  });

  it("MID-11 a batch of Service Bus messages: all are tried, and the error names the ids of the failed ones", async () => {
    const seen: string[] = [];
    const handler = serviceBusHandler({
      handle: (message) => {
        seen.push(message.messageId);
        if (message.payload === "bad") throw new Error("bad");
      },
    });
    const metadata = context({ messageIdArray: ["1", "2", "3"], deliveryCountArray: [1, 1, 1] });
    await expect(handler(["ok", "bad", "ok"], metadata)).rejects.toThrow("1 of 3 messages failed: 2.");
    expect(seen.sort()).toEqual(["1", "2", "3"]);
  });

  it("MID-11 a Storage queue message is taken out of its envelope; another message stays as it is", async () => {
    const { seen, handle } = collect();
    const handler = storageQueueHandler({ handle, topic: "orders" });
    const enveloped = toEnvelope({
      id: "i",
      messageId: "m",
      topic: "order.placed",
      payload: "p",
      headers: { a: "b" },
      correlationId: null,
    });
    await handler(JSON.parse(enveloped), context({ id: "q1", dequeueCount: 2 }));
    await handler("plain text", context({ id: "q2", dequeueCount: 1 }));
    expect(seen).toMatchObject([
      { messageId: "m", topic: "order.placed", payload: "p", headers: { a: "b" }, deliveries: 2 },
      { messageId: "q2", topic: "orders", payload: "plain text", headers: null, deliveries: 1 },
    ]);
  });
});
