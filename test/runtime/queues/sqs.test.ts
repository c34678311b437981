import { type PublishBatchCommandInput, SNSClient } from "@aws-sdk/client-sns";
import { GetQueueAttributesCommand, ReceiveMessageCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import type { SQSEvent, SQSRecord } from "aws-lambda";
import { type FauxqsServer, startFauxqs } from "fauxqs";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sqsHandler } from "../../../src/adapters/aws/middleware.js";
import {
  createDispatcher,
  createInbox,
  createOutbox,
  type Database,
  migrate,
  type OutboxMessage,
  timeBudget,
} from "../../../src/index.js";
import { compose, inbox, outbox, type TriggerMessage, transaction } from "../../../src/middleware/index.js";
import { snsPublisher, sqsPublisher } from "../../../src/publishers/index.js";
import { attributeHeaders, attributesOf } from "../../../src/queue/attributes.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { pollOnce, sqsClient } from "./event-source.js";

describe("SQS, behind the AWS SDK", () => {
  let server: FauxqsServer;
  let db: Database;
  let queues = 0;
  beforeAll(async () => {
    server = await startFauxqs({ port: 0, logger: false });
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    db = openSqlite({ file: ":memory:" });
    await migrate(db);
    return () => db.close();
  });

  const client = () => sqsClient(server.address);
  const newQueue = (attributes: Record<string, string> = {}, suffix = "") =>
    server.createQueue(`q${++queues}${suffix}`, { attributes });
  const receiveAll = async (queueUrl: string) => {
    const messages = [];
    for (;;) {
      const { Messages: batch = [] } = await client().send(
        new ReceiveMessageCommand({
          QueueUrl: queueUrl,
          MaxNumberOfMessages: 10,
          MessageAttributeNames: ["All"],
          MessageSystemAttributeNames: ["All"],
        }),
      );
      if (batch.length === 0) return messages;
      messages.push(...batch);
    }
  };

  it("MID-11 MID-03 only failed messages are delivered again; duplicates are acknowledged; a poison message becomes a dead letter with its error", async () => {
    const { queueUrl } = newQueue({ VisibilityTimeout: "0" });
    const handled: string[] = [];
    const store = createInbox(db);
    const handler = sqsHandler({
      handle: compose<TriggerMessage>(
        [transaction(db), inbox({ subscriber: "orders" }), outbox()],
        async (message) => {
          if (message.payload === "poison") throw new Error("cannot be read");
          handled.push(message.payload);
          return { topic: "placed", payload: message.payload };
        },
      ),
      deadLetters: store,
      subscriber: "orders",
      maxDeliveries: 3,
      concurrency: 1,
    });
    const send = (body: string, id: string) =>
      client().send(
        new SendMessageCommand({
          QueueUrl: queueUrl,
          MessageBody: body,
          MessageAttributes: { messageId: { DataType: "String", StringValue: id } },
        }),
      );
    await send("one", "m1");
    await send("poison", "m2");
    await send("one", "m1"); // the sender's retry: another SQS message with the same id
    await send("two", "m3");
    for (let polls = 0; polls < 20; polls++) await pollOnce({ client: client(), queueUrl, handler });

    expect(handled.sort()).toEqual(["one", "two"]);
    expect((await createOutbox(db).list()).messages.map((message) => message.payload).sort()).toEqual([
      "one",
      "two",
    ]);
    const dead = (await store.list({ state: "Dead" })).messages;
    expect(dead).toMatchObject([{ source: "orders", messageId: "m2", payload: "poison", topic: "sqs" }]);
    expect(dead[0]!.lastError).toBe("Error: cannot be read");
    const { Attributes: left } = await client().send(
      new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] }),
    );
    expect(left).toMatchObject({
      ApproximateNumberOfMessages: "0",
      ApproximateNumberOfMessagesNotVisible: "0",
    });
  });

  it("MID-11 without dead letters of its own, the queue's redrive policy takes the poison", async () => {
    const dlq = newQueue();
    const policy = JSON.stringify({ deadLetterTargetArn: dlq.queueArn, maxReceiveCount: "2" });
    const { queueUrl } = newQueue({ VisibilityTimeout: "0", RedrivePolicy: policy });
    const handler = sqsHandler({
      handle: () => {
        throw new Error("never");
      },
    });
    await client().send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: "poison" }));
    for (let polls = 0; polls < 5; polls++) await pollOnce({ client: client(), queueUrl, handler });
    expect((await receiveAll(dlq.queueUrl)).map((message) => message.Body)).toEqual(["poison"]);
  });

  it("MID-11 a FIFO group stays in order through failures", async () => {
    const { queueUrl } = newQueue({ FifoQueue: "true", VisibilityTimeout: "0" }, ".fifo");
    let broken = 2;
    const handled: string[] = [];
    const handler = sqsHandler({
      handle: compose<TriggerMessage>([transaction(db), inbox({ subscriber: "s" })], async ({ payload }) => {
        if (payload === "a2" && broken-- > 0) throw new Error("not yet");
        handled.push(payload);
      }),
    });
    for (const body of ["a1", "b1", "a2", "a3", "b2"]) {
      await client().send(
        new SendMessageCommand({
          QueueUrl: queueUrl,
          MessageBody: body,
          MessageGroupId: body[0],
          MessageDeduplicationId: body,
        }),
      );
    }
    for (let polls = 0; polls < 12; polls++) await pollOnce({ client: client(), queueUrl, handler });
    expect(handled.filter((body) => body.startsWith("a"))).toEqual(["a1", "a2", "a3"]);
    expect(handled.filter((body) => body.startsWith("b"))).toEqual(["b1", "b2"]);
  });

  it("MID-09 the outbox is published in batches of ten, with ids, topic and headers; a message that the queue refuses is settled by itself", async () => {
    const { queueUrl } = newQueue();
    const store = createOutbox(db);
    await store.enqueue([
      ...Array.from({ length: 24 }, (_, n) => ({
        topic: "placed",
        payload: `order ${n}`,
        headers: { n: `${n}` },
      })),
      { topic: "placed", payload: "\u0001" }, // SQS refuses this message alone
      { topic: "placed", payload: "" }, // this message would make SQS refuse the whole batch
      ...Array.from({ length: 6 }, () => ({ topic: "placed", payload: "x".repeat(1_048_576) })), // too large together with the attributes
    ]);
    let requests = 0;
    const counted = client();
    counted.middlewareStack.add(
      (next) => async (args) => {
        requests++;
        return next(args);
      },
      { step: "finalizeRequest", name: "count" },
    );
    const dispatcher = createDispatcher<OutboxMessage>({
      concurrency: 50,
      handlers: {
        placed: sqsPublisher({ queueUrl, client: counted }),
      },
    });
    await dispatcher.run(store, timeBudget(20_000));

    const sent = await receiveAll(queueUrl);
    expect(new Set(sent.map((message) => message.Body)).size).toBe(24);
    const all = (await store.list({ limit: 100 })).messages;
    const first = sent.find((message) => message.Body === "order 0")!;
    expect(first.MessageAttributes).toMatchObject({
      topic: { StringValue: "placed" },
      messageId: { StringValue: all[0]!.messageId },
      headers: { StringValue: '{"n":"0"}' },
    });
    expect(requests).toBeLessThanOrEqual(6);
    expect((await store.stats()).counts).toMatchObject({ Done: 24, Failed: 8, Ready: 0 });
  });

  it("MID-06 MID-09 MID-11 attributes are sent and received with their JSON types", async () => {
    const { queueUrl } = newQueue();
    const publish = sqsPublisher({ queueUrl, client: client() });
    const attributes = { version: 2, isTest: true, text: "2", lines: [{ sku: "a" }], none: null };
    const message = { id: "i", messageId: "m", topic: "t", payload: "p", correlationId: null };
    await publish(
      { ...message, headers: attributeHeaders(attributes) },
      { signal: new AbortController().signal },
    );
    const handled: unknown[] = [];
    const handler = async (event: SQSEvent) => {
      const [{ messageAttributes }] = event.Records as [SQSRecord];
      expect(JSON.parse(messageAttributes.headers!.stringValue!)).toEqual(attributes); // as others read it
      return sqsHandler({ handle: (one) => void handled.push(attributesOf(one)) })(event);
    };
    expect(await pollOnce({ client: client(), queueUrl, handler })).toBe(1);
    expect(handled).toEqual([attributes]);
  });

  it("MID-12 the type is an attribute, and comes back to the handler; a CloudEvent is the body", async () => {
    const { queueUrl } = newQueue();
    const { signal } = new AbortController();
    const message = {
      id: "i",
      messageId: "m",
      topic: "t",
      payload: '{"n":1}',
      correlationId: null,
      headers: null,
    };
    const handled: TriggerMessage[] = [];
    const handler = async (event: SQSEvent) => {
      for (const { messageAttributes } of event.Records)
        expect(messageAttributes.type!.stringValue).toBe(
          messageAttributes.topic!.stringValue === "t" ? "t.v2" : "u",
        );
      return sqsHandler({ handle: (one) => void handled.push(one) })(event);
    };
    await sqsPublisher({ queueUrl, client: client() })({ ...message, type: "t.v2" }, { signal });
    await sqsPublisher({ queueUrl, client: client() })({ ...message, topic: "u" }, { signal });
    await sqsPublisher({ queueUrl, client: client(), format: "cloudevents" })(
      { ...message, type: "t.v2" },
      { signal },
    );
    expect(await pollOnce({ client: client(), queueUrl, handler })).toBe(3);
    expect(handled.map(({ topic, type }) => [topic, type]).sort()).toEqual([
      ["t", "t.v2"],
      ["t", "t.v2"],
      ["u", "u"],
    ]);
    const event = handled.find(({ headers }) => headers !== null)!;
    expect(event.headers).toEqual({ "content-type": "application/cloudevents+json" });
    expect(event.data).toMatchObject({ specversion: "1.0", id: "m", type: "t.v2", data: { n: 1 } });
  });

  it("MID-09 ADD-01 a FIFO queue gets the partition key as group, and takes a message that is sent twice once", async () => {
    const { queueUrl } = newQueue({ FifoQueue: "true" }, ".fifo");
    const publish = sqsPublisher({ queueUrl, client: client() });
    const context = { signal: new AbortController().signal };
    const message = {
      id: "i",
      messageId: "0190a5e0-0000-7000-8000-000000000001",
      topic: "t",
      payload: "p",
      headers: null,
      correlationId: null,
      partitionKey: "customer-7",
    };
    await publish(message, context);
    await publish(message, context);
    const other = {
      ...message,
      messageId: "0190a5e0-0000-7000-8000-000000000002",
      partitionKey: "Zürich ".repeat(30),
    };
    await publish(other, context);
    const received = await receiveAll(queueUrl);
    expect(received).toHaveLength(2);
    expect(received[0]!.Attributes).toMatchObject({
      MessageGroupId: "customer-7",
      MessageDeduplicationId: message.messageId,
    });
  });

  it("MID-09 MID-12 an SNS topic fans out to its queues", async () => {
    const { queueUrl, queueName } = newQueue();
    const { topicArn } = server.createTopic("events");
    server.subscribe({ topic: "events", queue: queueName });
    const sns = new SNSClient({
      endpoint: server.address,
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "test" },
    });
    const store = createOutbox(db);
    await store.enqueue(["1", "2"].map((payload) => ({ topic: "placed", type: "placed.v2", payload })));
    const dispatcher = createDispatcher<OutboxMessage>({
      handlers: { placed: snsPublisher({ topicArn, client: sns }) },
    });
    await dispatcher.run(store, timeBudget(20_000));
    const bodies = (await receiveAll(queueUrl)).map(
      (message) =>
        JSON.parse(message.Body!) as { Message: string; MessageAttributes: { type: { Value: string } } },
    );
    expect(bodies.map((body) => body.Message).sort()).toEqual(["1", "2"]);
    for (const body of bodies) expect(body.MessageAttributes.type.Value).toBe("placed.v2");
  });

  it("MID-09 a batch for SNS has at most 256 KB, counted as SNS does: bodies and attributes", async () => {
    const { topicArn } = server.createTopic("large");
    const sns = new SNSClient({
      endpoint: server.address,
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "test" },
    });
    const sizes: number[] = [];
    sns.middlewareStack.add(
      (next) => (args) => {
        const { PublishBatchRequestEntries: entries = [] } = args.input as PublishBatchCommandInput;
        const attributes = entries.flatMap(({ MessageAttributes: own }) => Object.entries(own ?? {}));
        const texts = [
          ...entries.map(({ Message }) => Message),
          ...attributes.flatMap(([name, { DataType, StringValue }]) => [name, DataType, StringValue]),
        ];
        sizes.push(Buffer.byteLength(texts.join("")));
        return next(args);
      },
      { step: "initialize", name: "measure" },
    );
    const publish = snsPublisher({ topicArn, client: sns });
    const context = { signal: new AbortController().signal };
    const message = (n: number, payload: string) => ({
      id: `${n}`,
      messageId: `0190a5e0-0000-7000-8000-00000000000${n}`,
      topic: "名".repeat(255),
      payload,
      headers: null,
      correlationId: "名".repeat(255),
    });
    const half = "x".repeat(131_072 - 1_030);
    await Promise.all([publish(message(1, half), context), publish(message(2, half), context)]);
    expect(sizes).toHaveLength(2);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(262_144);
    sizes.length = 0;
    // what fits shares a request: the limit is not approached from far below
    const fits = "x".repeat(131_072 - 2_600);
    await Promise.all([publish(message(3, fits), context), publish(message(4, fits), context)]);
    expect(sizes).toHaveLength(1);
    expect(sizes[0]).toBeLessThanOrEqual(262_144);
  });

  it("ADD-10 a destination that is away costs the others no time: its breaker opens, and all others are published", async () => {
    const { queueUrl } = newQueue();
    const away = sqsClient("http://127.0.0.1:9"); // no server listens there
    const store = createOutbox(db);
    await store.enqueue([
      ...Array.from({ length: 40 }, (_, n) => ({ topic: "away", payload: `${n}` })),
      ...Array.from({ length: 20 }, (_, n) => ({ topic: "near", payload: `${n}` })),
    ]);
    let calls = 0;
    away.middlewareStack.add(
      (next) => async (args) => {
        calls++;
        return next(args);
      },
      { step: "initialize", name: "count" },
    );
    const dispatcher = createDispatcher<OutboxMessage>({
      concurrency: 10,
      handlers: {
        away: sqsPublisher({ queueUrl, client: away, breaker: { failures: 3, openMs: 60_000 } }),
        near: sqsPublisher({ queueUrl, client: client() }),
      },
    });
    await dispatcher.run(store, timeBudget(30_000));
    expect((await store.stats()).counts).toMatchObject({ Done: 20, Ready: 40 });
    expect(calls).toBeLessThanOrEqual(2);
    const refused = (await store.list({ topic: "away", error: "circuit breaker is open" })).messages;
    expect(refused.length).toBeGreaterThanOrEqual(20);
  });
});
