import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { app as functionApp } from "@azure/functions";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serviceBusHandler, storageQueueHandler } from "../../../src/adapters/azure/middleware.js";
import { type Database, migrate } from "../../../src/index.js";
import { compose, inbox, type TriggerMessage, transaction } from "../../../src/middleware/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import type { FunctionsWorker, RpcData } from "./functions-worker.js";
import { loadInProcess } from "./in-process-worker.js";

type App = typeof functionApp;

const modules = fileURLToPath(new URL("../../../node_modules", import.meta.url));

/** The host's data for the worker. Everything from there to the handler is Microsoft's library. */
describe("queue triggers in Azure's programming model", () => {
  let folder: string;
  let worker: FunctionsWorker;
  let db: Database;
  const seen: TriggerMessage[] = [];
  let invocations = 0;

  beforeAll(async () => {
    db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const handle = compose<TriggerMessage>(
      [transaction(db), inbox({ subscriber: "orders" })],
      async (message) => {
        if (message.payload === "bad") throw new Error("the business says no");
        seen.push(message);
      },
    );
    (globalThis as { registerQueues?: (app: App) => void }).registerQueues = (app) => {
      const bus = { connection: "BUS", handler: serviceBusHandler({ handle }) };
      app.serviceBusQueue("one", { queueName: "orders", ...bus });
      app.serviceBusQueue("many", { queueName: "orders", cardinality: "many", ...bus });
      app.storageQueue("storage", {
        queueName: "orders",
        connection: "STORAGE",
        handler: storageQueueHandler({ handle }),
      });
    };
    folder = await mkdtemp(join(modules, ".oncebox-queues-")); // so that the app finds the library
    await writeFile(join(folder, "package.json"), '{ "main": "app.mjs" }');
    await writeFile(
      join(folder, "app.mjs"),
      'import { app } from "@azure/functions";\nglobalThis.registerQueues(app);\n',
    );
    worker = await loadInProcess(folder, () => {});
  });
  afterAll(async () => {
    await db.close();
    await rm(folder, { recursive: true, force: true });
  });

  const text = (value: string): RpcData => ({ string: value });
  const json = (value: unknown): RpcData => ({ json: JSON.stringify(value) });
  const invoke = async (name: string, body: RpcData, metadata: Record<string, RpcData>) => {
    const before = seen.length;
    await worker.invoke(name, body, `invocation-${++invocations}`, metadata);
    return seen.slice(before);
  };
  const busMetadata = (id: string, more: Record<string, RpcData> = {}) => ({
    MessageId: text(id),
    DeliveryCount: json(1),
    ApplicationProperties: json({ topic: "order.placed", headers: '{"a":"b"}' }),
    ...more,
  });

  it("MID-11 Service Bus: id, attributes and body are as they were sent, and a redelivery is skipped", async () => {
    const metadata = busMetadata("m-1", { CorrelationId: text("42"), SessionId: text("7") });
    expect(await invoke("one", text('{"n":1}'), metadata)).toEqual([
      {
        messageId: "m-1",
        topic: "order.placed",
        type: "order.placed",
        payload: '{"n":1}',
        headers: { a: "b" },
        correlationId: "42",
        partitionKey: "7",
        deliveries: 1,
      },
    ]);
    expect(await invoke("one", text('{"n":1}'), metadata)).toEqual([]);
    await expect(invoke("one", text("bad"), busMetadata("m-2"))).rejects.toThrow("the business says no");
  });

  it("MID-03 MID-11 ids that look like numbers are ids, and two that lose digits stay different", async () => {
    expect(await invoke("one", text("x"), busMetadata("12345"))).toMatchObject([{ messageId: "12345" }]);
    const large = (id: string, sequence: number) =>
      busMetadata(id, {
        SequenceNumber: json(sequence),
        EnqueuedTimeUtc: json("2030-01-01T00:00:00Z"),
      });
    expect(await invoke("one", text("x"), large("12345678901234567890", 1))).toHaveLength(1);
    expect(await invoke("one", text("x"), large("12345678901234567891", 2))).toHaveLength(1);
    expect(await invoke("one", text("x"), large("12345678901234567891", 2))).toHaveLength(0);
  });

  it("MID-11 a message whose body is a JSON array is one message; bytes arrive as they were sent", async () => {
    expect(await invoke("one", text("[1,2]"), busMetadata("array"))).toMatchObject([{ payload: "[1,2]" }]);
    const exact = '{ "n": 12345678901234567890 }';
    expect(await invoke("one", { bytes: Buffer.from(exact) }, busMetadata("bytes"))).toMatchObject([
      { payload: exact },
    ]);
  });

  it("MID-11 a batch of Service Bus: the failed messages are named, and after the redelivery each was handled once", async () => {
    const metadata = {
      MessageIdArray: json(["b-1", "b-2", "b-3"]),
      DeliveryCountArray: json([1, 1, 1]),
      ApplicationPropertiesArray: json([{}, {}, { topic: "third" }]),
    };
    const bodies = (second: string): RpcData => ({
      collectionString: { string: ["first", second, "third"] },
    });
    const before = seen.length;
    await expect(invoke("many", bodies("bad"), metadata)).rejects.toThrow("1 of 3 messages failed: b-2.");
    await invoke("many", bodies("second"), metadata);
    const handled = seen.slice(before).map(({ messageId, topic, payload }) => [messageId, topic, payload]);
    expect(handled.sort()).toEqual([
      ["b-1", "service-bus", "first"],
      ["b-2", "service-bus", "second"],
      ["b-3", "third", "third"],
    ]);
  });

  it("MID-11 Storage queues: the queue's id for a message that has none", async () => {
    const metadata = { Id: text("0f9d3c4e-1111-4222-8333-444455556666"), DequeueCount: json(2) };
    expect(await invoke("storage", text("[1]"), metadata)).toMatchObject([
      { messageId: "0f9d3c4e-1111-4222-8333-444455556666", payload: "[1]", deliveries: 2 },
    ]);
    expect(await invoke("storage", text("[1]"), metadata)).toEqual([]);
  });
});
