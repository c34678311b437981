import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { storageQueueHandler } from "../../../src/adapters/azure/middleware.js";
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
import { storageQueuePublisher } from "../../../src/publishers/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type Azurite, createQueue, startAzurite } from "../azure/azurite.js";

describe("Azure Storage queues, on Azurite", () => {
  let azurite: Azurite;
  let db: Database;
  beforeAll(async () => {
    azurite = await startAzurite();
  });
  afterAll(() => azurite.stop());
  beforeEach(async () => {
    db = openSqlite({ file: ":memory:" });
    await migrate(db);
    return () => db.close();
  });

  const newQueue = (name: string) => createQueue(azurite, name);

  /** One poll of the Functions host: a failed message becomes visible again. */
  const pollOnce = async (
    queue: Awaited<ReturnType<typeof newQueue>>,
    handler: ReturnType<typeof storageQueueHandler>,
  ): Promise<number> => {
    const { receivedMessageItems: items } = await queue.receiveMessages({ numberOfMessages: 16 });
    for (const item of items) {
      const text = Buffer.from(item.messageText, "base64").toString("utf8");
      const triggerMetadata = { id: item.messageId, dequeueCount: item.dequeueCount };
      try {
        await handler(text, { triggerMetadata } as never);
        await queue.deleteMessage(item.messageId, item.popReceipt);
      } catch {
        await queue.updateMessage(item.messageId, item.popReceipt, item.messageText, 0);
      }
    }
    return items.length;
  };

  it("MID-09 MID-11 MID-12 MID-03 from the outbox through the queue into another handler: once, although messages are delivered twice", async () => {
    const queue = await newQueue("orders");
    const source = createOutbox(db);
    await source.enqueue([
      {
        topic: "order.placed",
        type: "order.v2",
        payload: '{"n":1}',
        headers: { a: "b" },
        correlationId: "c",
      },
      { topic: "order.placed", payload: "not JSON: ü" },
    ]);
    const publish = storageQueuePublisher({ queue });
    const twice = async (message: OutboxMessage, context: { signal: AbortSignal }) => {
      await publish(message, context);
      await publish(message, context); // as after a crash between sending and marking
    };
    await createDispatcher<OutboxMessage>({ handlers: { "order.placed": twice } }).run(
      source,
      timeBudget(30_000),
    );
    expect((await source.stats()).counts.Done).toBe(2);

    const handled: TriggerMessage[] = [];
    const handler = storageQueueHandler({
      handle: compose<TriggerMessage>(
        [transaction(db), inbox({ subscriber: "billing" }), outbox()],
        async (message) => {
          handled.push(message);
          return { topic: "billed", payload: "" };
        },
      ),
    });
    let received = 0;
    for (let polls = 0; polls < 3; polls++) received += await pollOnce(queue, handler);
    expect(received).toBe(4);
    expect(handled.map((message) => message.payload).sort()).toEqual(["not JSON: ü", '{"n":1}']);
    expect(handled.find((message) => message.payload.startsWith("{"))).toMatchObject({
      topic: "order.placed",
      type: "order.v2",
      headers: { a: "b" },
      correlationId: "c",
      deliveries: 1,
    });
    expect((await source.stats()).counts.Ready).toBe(2);
  });

  it("MID-12 a CloudEvent is sent by itself, without an envelope", async () => {
    const queue = await newQueue("events");
    const source = createOutbox(db);
    await source.enqueue({ topic: "order.placed", type: "order.v2", payload: '{"n":1}' });
    const publish = storageQueuePublisher({ queue, format: "cloudevents", source: "/shop" });
    await createDispatcher<OutboxMessage>({ handlers: { "order.placed": publish } }).run(
      source,
      timeBudget(30_000),
    );
    const { receivedMessageItems: items } = await queue.receiveMessages();
    const event: unknown = JSON.parse(Buffer.from(items[0]!.messageText, "base64").toString("utf8"));
    expect(event).toMatchObject({ specversion: "1.0", source: "/shop", type: "order.v2", data: { n: 1 } });
  });

  it("MID-11 ADD-02 a poison message becomes a dead letter with its error after its last delivery, and leaves the queue", async () => {
    const queue = await newQueue("poison");
    await queue.sendMessage(Buffer.from("poison").toString("base64"));
    const store = createInbox(db);
    let attempts = 0;
    const handler = storageQueueHandler({
      handle: () => {
        attempts++;
        throw new Error("cannot be handled");
      },
      deadLetters: store,
      subscriber: "s",
      maxDeliveries: 2,
    });
    for (let polls = 0; polls < 4; polls++) await pollOnce(queue, handler);
    expect(attempts).toBe(2);
    expect((await store.list({ state: "Dead" })).messages).toMatchObject([
      { source: "s", payload: "poison", lastError: "Error: cannot be handled" },
    ]);
    expect((await queue.getProperties()).approximateMessagesCount).toBe(0);
  });

  it("MID-09 a message that is larger than the queue takes fails for good", async () => {
    const queue = await newQueue("large");
    const store = createOutbox(db);
    await store.enqueue({ topic: "t", payload: "x".repeat(60_000) });
    await createDispatcher<OutboxMessage>({ handlers: { t: storageQueuePublisher({ queue }) } }).run(
      store,
      timeBudget(10_000),
    );
    expect((await store.list({ state: "Failed" })).messages[0]!.lastError).toMatch(/larger/);
  });
});
