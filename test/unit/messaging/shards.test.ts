import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { timeBudget } from "../../../src/base/async.js";
import { command, createService, defineMessages, inProcessTransport } from "../../../src/messaging/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

const messages = defineMessages({
  Reserve: command(z.object({ item: z.string() }), z.object({ at: z.string() })),
});

it("MSG-11 MSG-22 a service may have an outbox file for each destination, and one inbox that handles each response once", async () => {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-shards-"));
  const open = (name: string) => {
    const db = openSqlite({ file: join(folder, `${name}.db`) });
    onTestFinished(() => db.close());
    return db;
  };
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const inProcess = inProcessTransport();
  const transports = { inProcess };
  const responses: string[] = [];
  const inbox = open("inbox");

  const warehouse = async (serviceId: string) => {
    const service = createService({
      serviceId,
      db: open(serviceId),
      messages,
      destinations: { orders: { transport: "inprocess" } },
      transports,
      receive: { Reserve: ({ item }) => ({ at: `${item} at ${serviceId}` }) },
    });
    await service.init();
    inProcess.serve(serviceId, service.receiver);
    return service;
  };
  const outboxes = { north: open("outbox-north"), south: open("outbox-south") };
  const shard = async (destination: "north" | "south", other: "north" | "south") => {
    const service = createService({
      serviceId: "orders",
      db: { outbox: outboxes[destination], inbox, otherOutboxes: [outboxes[other]] },
      messages,
      destinations: { [destination]: { transport: "inprocess" } } as Record<typeof destination, object>,
      transports,
      onResponse: { Reserve: ({ at }) => void responses.push(at) },
    });
    await service.init();
    return service;
  };
  const [north, south] = [await warehouse("north"), await warehouse("south")];
  const [toNorth, toSouth] = [await shard("north", "south"), await shard("south", "north")];
  inProcess.serve("orders", toNorth.receiver); // any of them receives for both

  await toNorth.send.Reserve("north", { item: "chair" });
  await toSouth.send.Reserve("south", { item: "table" });
  for (const service of [toNorth, toSouth, north, south]) {
    await service.dispatch(timeBudget(60_000));
    expect((await service.outboxStats()).counts).toMatchObject({ Sent: 1, Pending: 0 });
  }
  expect(responses).toEqual(["chair at north", "table at south"]);

  const lamp = await toSouth.send.Reserve("south", { item: "lamp" });
  const response = {
    messageId: randomUUID(),
    correlationId: lamp,
    sourceServiceId: "south",
    messageType: "Response",
    endpoint: "Reserve",
    payload: { at: "lamp at south" },
    headers: { "rf-in-reply-to": lamp },
  } as const;
  const forged = { ...response, sourceServiceId: "north" };
  expect(await toNorth.receiver.receive(forged)).toMatchObject({ acknowledged: false, permanent: true });
  expect(await toNorth.receiver.receive(response)).toMatchObject({ acknowledged: true });
  expect(responses.at(-1)).toBe("lamp at south");
});
