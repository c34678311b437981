import { ServiceBusClient, type ServiceBusReceivedMessage } from "@azure/service-bus";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
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
import { inbox, outbox, stack, type TriggerMessage, transaction } from "../../../src/middleware/index.js";
import { serviceBusPublisher } from "../../../src/publishers/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type ServiceBusBroker, startServiceBusBroker } from "./service-bus-broker.js";

/** As the Functions host hands a message to a handler. */
const metadataOf = (message: ServiceBusReceivedMessage) => ({
  messageId: message.messageId,
  correlationId: message.correlationId,
  sessionId: message.sessionId,
  subject: message.subject,
  deliveryCount: (message.deliveryCount ?? 0) + 1,
  applicationProperties: message.applicationProperties,
});

describe("Azure Service Bus: Microsoft's SDK against an AMQP 1.0 peer", () => {
  let broker: ServiceBusBroker;
  let client: ServiceBusClient;
  let db: Database;
  beforeAll(async () => {
    broker = await startServiceBusBroker();
    client = new ServiceBusClient(broker.connectionString, {
      retryOptions: { maxRetries: 0, timeoutInMs: 10_000 },
    });
  });
  afterAll(async () => {
    await client.close();
    await broker.stop();
  });
  beforeEach(async () => {
    db = openSqlite({ file: ":memory:" });
    await migrate(db);
    return () => db.close();
  });

  /** Receives until so many deliveries were settled: completed when the handler resolves, abandoned when it throws. */
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

  it("MID-09 MID-11 MID-03 from the outbox in one batch, through the queue, into a handler: once, though all are sent twice", async () => {
    const store = createOutbox(db);
    await store.enqueue(
      [1, 2, 3].map((n) => ({
        topic: "order.placed",
        payload: JSON.stringify({ n }),
        headers: { n: `${n}` },
        correlationId: `c${n}`,
      })),
    );
    const sender = client.createSender("orders");
    const publish = serviceBusPublisher({ sender });
    const before = broker.transfers();
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
    expect(broker.transfers() - before).toBeLessThan(6); // what came together went together
    expect(broker.waiting).toHaveLength(6);

    const handled: TriggerMessage[] = [];
    const handle = stack<TriggerMessage>(
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
      headers: { n: "2" },
      correlationId: "c2",
      deliveries: 1,
    });
    expect((await store.stats()).counts.Ready).toBe(3);
    expect(broker.waiting).toHaveLength(0);
  });

  it("MID-11 ADD-02 what fails is delivered again by the service; poison ends in the dead letters with its error", async () => {
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
    expect(broker.waiting).toHaveLength(0);
  });

  it("MID-09 a batch that the service refuses is sent again, none of it lost", async () => {
    const store = createOutbox(db, { retry: { baseMs: 1, factor: 1 } });
    await store.enqueue(["1", "2"].map((payload) => ({ topic: "t", payload })));
    const sender = client.createSender("orders");
    broker.refuse(1);
    const dispatcher = createDispatcher<OutboxMessage>({ handlers: { t: serviceBusPublisher({ sender }) } });
    for (let runs = 0; runs < 20 && broker.waiting.length < 2; runs++)
      await dispatcher.run(store, timeBudget(10_000));
    await sender.close();
    expect(broker.waiting).toHaveLength(2);
    expect((await store.list()).messages.map(({ state, attempt }) => ({ state, attempt }))).toEqual([
      { state: "Done", attempt: 1 },
      { state: "Done", attempt: 1 },
    ]);
  });
});
