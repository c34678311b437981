import { randomUUID } from "node:crypto";
import { ServiceBusClient } from "@azure/service-bus";
import { describe, expect, it } from "vitest";
import {
  createDispatcher,
  createOutbox,
  migrate,
  type OutboxMessage,
  PermanentFailure,
  timeBudget,
} from "../../../src/index.js";
import { serviceBusPublisher } from "../../../src/publishers/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { dockerRuns } from "../../support/docker.js";
import { startServiceBusBroker } from "./service-bus-broker.js";
import { startServiceBusEmulator } from "./service-bus-emulator.js";
import { serviceBusSuite } from "./service-bus-suite.js";

describe("Azure Service Bus: Microsoft's SDK against an AMQP 1.0 peer", () => {
  serviceBusSuite(async () => {
    const { connectionString, waiting, stop } = await startServiceBusBroker();
    return { connectionString, waiting: async () => waiting.length, stop };
  });

  it("MID-09 messages of one claim are sent in one batch, and a refused batch is sent again completely", async () => {
    const broker = await startServiceBusBroker();
    const client = new ServiceBusClient(broker.connectionString, {
      retryOptions: { maxRetries: 0, timeoutInMs: 10_000 },
    });
    const db = openSqlite({ file: ":memory:" });
    try {
      await migrate(db);
      const store = createOutbox(db, { retry: { baseMs: 1, factor: 1 } });
      await store.enqueue(["1", "2", "3"].map((payload) => ({ topic: "t", payload })));
      const publish = serviceBusPublisher({ sender: client.createSender("orders") });
      broker.refuse(1);
      const dispatcher = createDispatcher<OutboxMessage>({ handlers: { t: publish } });
      while ((await store.stats()).counts.Done < 3) await dispatcher.run(store, timeBudget(10_000));
      expect(broker.waiting).toHaveLength(3);
      expect(broker.transfers()).toBeLessThan(1 + 3);
      const { messages } = await store.list();
      expect(messages.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
    } finally {
      await client.close();
      await broker.stop();
      await db.close();
    }
  });
});

describe("Azure Service Bus: the content of a batch", () => {
  it("MID-09 ADD-01 each session has a batch of its own, and only a message that is too large fails for good", async () => {
    const broker = await startServiceBusBroker();
    const client = new ServiceBusClient(broker.connectionString, {
      retryOptions: { maxRetries: 0, timeoutInMs: 10_000 },
    });
    try {
      const publish = serviceBusPublisher({ sender: client.createSender("orders") });
      const context = { signal: new AbortController().signal };
      const send = (partitionKey: string | null, payload: string) => {
        const messageId = randomUUID();
        const fields = { id: messageId, messageId, topic: "t", headers: null, correlationId: null };
        return publish({ ...fields, partitionKey, payload }, context);
      };
      const ends = await Promise.allSettled([
        ...["a", "b", "a", null, "b", null].map((key, index) => send(key, `${index}`)),
        send("a", "x".repeat(300_000)),
      ]);
      expect(ends.map(({ status }) => status)).toEqual([...Array(6).fill("fulfilled"), "rejected"]);
      expect((ends[6] as PromiseRejectedResult).reason).toBeInstanceOf(PermanentFailure);
      expect(broker.transfers()).toBe(3);
      expect(broker.waiting.map(({ group_id: session }) => session ?? null).sort()).toEqual(
        ["a", "a", "b", "b", null, null].sort(),
      );
    } finally {
      await client.close();
      await broker.stop();
    }
  });
});

describe.skipIf(!(await dockerRuns()))(
  "Azure Service Bus: Microsoft's SDK against Microsoft's emulator (needs Docker)",
  { timeout: 120_000 },
  () => serviceBusSuite(startServiceBusEmulator),
);
