import { ServiceBusClient, type ServiceBusReceivedMessage } from "@azure/service-bus";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { serviceBusHandler } from "../../../src/adapters/azure/middleware.js";
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
import { serviceBusPublisher } from "../../../src/publishers/index.js";
import { attributeHeaders, attributesOf } from "../../../src/queue/attributes.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

/** A Service Bus, or a stand-in, with a queue `orders`. */
export interface ServiceBus {
  readonly connectionString: string;
  /** Messages in the queue. */
  waiting(client: ServiceBusClient): Promise<number>;
  stop(): Promise<void>;
}

/** The metadata that the Functions host gives a handler. */
const metadataOf = (message: ServiceBusReceivedMessage) => ({
  messageId: message.messageId,
  correlationId: message.correlationId,
  sessionId: message.sessionId,
  subject: message.subject,
  deliveryCount: (message.deliveryCount ?? 0) + 1,
  applicationProperties: message.applicationProperties,
});

/** Tests of Microsoft's SDK against any Service Bus. */
export function serviceBusSuite(start: () => Promise<ServiceBus>): void {
  let bus: ServiceBus;
  let client: ServiceBusClient;
  let db: Database;
  beforeAll(async () => {
    bus = await start();
    client = new ServiceBusClient(bus.connectionString, {
      retryOptions: { maxRetries: 0, timeoutInMs: 10_000 },
    });
  }, 300_000);
  afterAll(async () => {
    await client?.close();
    await bus?.stop();
  });
  beforeEach(async () => {
    db = openSqlite({ file: ":memory:" });
    await migrate(db);
    return () => db.close();
  });

  /** Receives until that many deliveries are settled: completed when the handler resolves, abandoned when it throws. */
  const consume = async (
    deliveries: number,
    handler: ReturnType<typeof serviceBusHandler>,
  ): Promise<void> => {
    const receiver = client.createReceiver("orders");
    let settled = 0;
    await new Promise<void>((resolve, reject) => {
      receiver.subscribe(
        {
          async processMessage(message) {
            const body = Buffer.isBuffer(message.body)
              ? message.body.toString("utf8")
              : (message.body as unknown);
            try {
              await handler(body, { triggerMetadata: metadataOf(message) } as never);
              await receiver.completeMessage(message);
            } catch {
              await receiver.abandonMessage(message);
            }
            if (++settled === deliveries) resolve();
          },
          processError: async ({ error }) => reject(error),
        },
        { autoCompleteMessages: false },
      );
    });
    await receiver.close();
  };

  it("MID-09 MID-11 MID-12 MID-03 from the outbox through the queue into a handler: once, although each message is sent twice", async () => {
    const store = createOutbox(db);
    await store.enqueue(
      [1, 2, 3].map((n) => ({
        topic: "order.placed",
        type: `com.example.order.v${n}`, // the subject on the way
        payload: JSON.stringify({ n }),
        headers: attributeHeaders({ n: `${n}`, total: n }),
        correlationId: `c${n}`,
      })),
    );
    const sender = client.createSender("orders");
    const publish = serviceBusPublisher({ sender });
    const twice = async (message: OutboxMessage, context: { signal: AbortSignal }) => {
      await publish(message, context);
      await publish(message, context); // as after a crash between sending and marking
    };
    await createDispatcher<OutboxMessage>({ handlers: { "order.placed": twice } }).run(
      store,
      timeBudget(30_000),
    );
    await sender.close();
    expect((await store.stats()).counts).toMatchObject({ Done: 3 });
    expect(await bus.waiting(client)).toBe(6);

    const handled: TriggerMessage[] = [];
    const handle = compose<TriggerMessage>(
      [transaction(db), inbox({ subscriber: "billing" }), outbox()],
      async (message) => {
        handled.push(message);
        return { topic: "billed", payload: message.payload };
      },
    );
    await consume(6, serviceBusHandler({ handle }));
    expect(handled.map((message) => message.payload).sort()).toEqual(['{"n":1}', '{"n":2}', '{"n":3}']);
    expect(handled.find((message) => message.payload === '{"n":2}')).toMatchObject({
      topic: "order.placed",
      type: "com.example.order.v2",
      headers: { n: "2" },
      correlationId: "c2",
      deliveries: 1,
    });
    expect(handled.map(attributesOf)).toContainEqual({ n: "2", total: 2 });
    expect((await store.stats()).counts.Ready).toBe(3);
    expect(await bus.waiting(client)).toBe(0);
  });

  it("MID-11 ADD-02 the service delivers a failed message again; a poison message becomes a dead letter with its error", async () => {
    const sender = client.createSender("orders");
    await sender.sendMessages({ messageId: "p", body: Buffer.from("poison") });
    await sender.close();
    const seen: number[] = [];
    const store = createInbox(db);
    const handler = serviceBusHandler({
      handle: (message) => {
        seen.push(message.deliveries);
        throw new Error("cannot be handled");
      },
      deadLetters: store,
      subscriber: "s",
      maxDeliveries: 3,
    });
    await consume(3, handler);
    expect(seen).toEqual([1, 2, 3]);
    expect((await store.list({ state: "Dead" })).messages).toMatchObject([
      { source: "s", messageId: "p", payload: "poison", lastError: "Error: cannot be handled" },
    ]);
    expect(await bus.waiting(client)).toBe(0);
  });
}
