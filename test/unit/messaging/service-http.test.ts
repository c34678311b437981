import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { timeBudget } from "../../../src/base/async.js";
import { uuidV7 } from "../../../src/base/uuid.js";
import {
  command,
  createService,
  defineMessages,
  type Envelope,
  listen,
  type ServiceOptions,
  signal,
  signEnvelope,
} from "../../../src/messaging/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";

const messages = defineMessages({
  OrderApproved: signal(z.object({ orderId: z.string() })),
  ReserveStock: command(z.object({ item: z.string() }), z.object({ reservation: z.string() })),
});
const secretOf = (byte: number): string => Buffer.alloc(24, byte).toString("base64");
const url = "http://127.0.0.1/_rf/receive";

/** An inventory on a database of its own that counts what it handles. */
async function inventory(options: Partial<ServiceOptions<typeof messages, "orders">> = {}) {
  const db = openSqlite({ file: ":memory:" });
  const log: LogLine[] = [];
  let handled = 0;
  const service = createService<typeof messages, "orders">({
    serviceId: "inventory",
    db,
    messages,
    sources: { orders: { secrets: [secretOf(1), secretOf(2)], endpoints: "*" } },
    receive: {
      OrderApproved: () => void handled++,
      ReserveStock: ({ item }) => {
        handled++;
        if (item === "none") throw new Error(`no ${item}`);
        return { reservation: item };
      },
    },
    logger: recordingLogger(log),
    ...options,
  });
  await service.init();
  onTestFinished(async () => {
    await service.close();
    await db.close();
  });
  return { service, log, handled: () => handled };
}

it("MSG-12 an endpoint may have the name of what every object inherits; without a handler it is not handled", async () => {
  const db = openSqlite({ file: ":memory:" });
  onTestFinished(() => db.close());
  const note = signal(z.object({}));
  const service = createService({
    serviceId: "inventory",
    db,
    messages: defineMessages({ toString: note, valueOf: note }),
    receive: { valueOf: () => {} },
  });
  await service.init();
  const receive = (endpoint: string) => service.receiver.receive({ ...approved(), endpoint, payload: {} });
  expect(await receive("toString")).toMatchObject({
    acknowledged: false,
    error: expect.stringContaining("no handler"),
  });
  expect(await receive("valueOf")).toMatchObject({ acknowledged: true });
});

it("MSG-22 a message is refused when it is sent if its receiver would refuse it as too large, and one byte less arrives", async () => {
  const db = openSqlite({ file: ":memory:" });
  onTestFinished(() => db.close());
  const { service: receiver, handled } = await inventory({ maxBodyBytes: 2_000 });
  const listener = await listen({ address: "http://127.0.0.1:0/_rf/receive", receiver: receiver.receiver });
  onTestFinished(() => listener.close());
  const sender = createService({
    serviceId: "orders",
    db,
    messages,
    destinations: { inventory: { address: listener.address, secrets: [secretOf(1)] } },
    maxBodyBytes: 2_000,
  });
  onTestFinished(() => sender.close());
  await sender.init();
  const headers = { traceparent: 'ß"'.repeat(20) };
  const send = (length: number) =>
    sender.send.OrderApproved("inventory", { orderId: "ü".repeat(length) }, { headers, correlationId: "c" });
  let length = 1;
  while (
    await send(length).then(
      () => true,
      () => false,
    )
  )
    length++;
  await expect(send(length)).rejects.toThrow(/has 200[12] bytes with its headers; at most 2000 are sent/);
  await expect(sender.request.ReserveStock("inventory", { item: "x".repeat(1_900) })).rejects.toThrow(
    /bytes with its headers/,
  );
  await sender.dispatch(timeBudget(60_000));
  expect((await sender.outboxStats()).counts).toMatchObject({ Sent: length - 1, Failed: 0, Pending: 0 });
  expect(handled()).toBe(length - 1);
});

const approved = (): Envelope => ({
  messageId: uuidV7(),
  correlationId: null,
  sourceServiceId: "orders",
  messageType: "Signal",
  endpoint: "OrderApproved",
  payload: { orderId: "7" },
  headers: {},
});

const signed = (
  message: Envelope,
  { secret = secretOf(1), destination = "inventory", now = new Date() } = {},
): string => signEnvelope(message, { destination, secrets: [secret], now });

describe("the endpoints of a source", () => {
  const reserve = (): Envelope => ({
    ...approved(),
    messageType: "Command",
    endpoint: "ReserveStock",
    payload: { item: "chair" },
  });

  it("ADD-22 MSG-08 a call to any other endpoint is refused as one of a stranger, and leaves no trace", async () => {
    const { service, log, handled } = await inventory({
      sources: { orders: { secrets: [secretOf(1)], endpoints: ["OrderApproved"] } },
    });
    const refused = await service.receiver.fetch(post(signed(reserve())));
    expect(refused.status).toBe(401);
    expect(await refused.text()).toBe("");
    expect(handled()).toBe(0);
    expect((await service.inboxStats()).size).toBe(0);
    expect(log.at(-1)).toMatchObject({
      message: "Inbox: the source may not call this endpoint",
      fields: { sourceServiceId: "orders", endpoint: "ReserveStock" },
    });
    expect((await service.receiver.fetch(post(signed(approved())))).status).toBe(200);
    expect(handled()).toBe(1);
  });

  it("ADD-22 a destination may respond, and call only the endpoints that it is given", async () => {
    const destination = { address: "http://127.0.0.1:1/_rf/receive", secrets: [secretOf(1)] };
    const silent = await inventory({ sources: {}, destinations: { orders: destination } });
    expect((await silent.service.receiver.fetch(post(signed(reserve())))).status).toBe(401);
    const response: Envelope = { ...reserve(), messageType: "Response", payload: { reservation: "chair" } };
    // its signature and its sender are right: that no such command was sent is found out later
    expect((await silent.service.receiver.fetch(post(signed(response)))).status).toBe(500);
    const calling = await inventory({
      sources: {},
      destinations: { orders: { ...destination, endpoints: ["ReserveStock"] } },
    });
    expect((await calling.service.receiver.fetch(post(signed(reserve())))).status).toBe(200);
    expect((await calling.service.receiver.fetch(post(signed(approved())))).status).toBe(401);
  });
});

const post = (body: string, at = url): Request => new Request(at, { method: "POST", body });

describe("the receiver by HTTP", () => {
  it("MSG-18 returns 200 with the acknowledgement, also for a duplicate, and 500 with the error", async () => {
    const { service, handled } = await inventory();
    const message = approved();
    for (const duplicateDetected of [false, true]) {
      const response = await service.receiver.fetch(post(signed(message)));
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual({ acknowledged: true, duplicateDetected, payload: null });
    }
    expect(handled()).toBe(1);
    const reserve = (item: string): Envelope => ({
      ...approved(),
      messageType: "Command",
      endpoint: "ReserveStock",
      payload: { item },
    });
    const reserved = await service.receiver.fetch(post(signed(reserve("chair"))));
    expect(await reserved.json()).toMatchObject({ payload: { reservation: "chair" } });
    const failed = await service.receiver.fetch(post(signed(reserve("none"))));
    expect(failed.status).toBe(500);
    expect(await failed.json()).toEqual({ acknowledged: false, error: "Error" });
  });

  it("MSG-08 each of several secrets is valid; what is not verified gets 401 without a reason, and leaves no trace but a line on each kind", async () => {
    const { service, log, handled } = await inventory();
    const ok = await service.receiver.fetch(post(signed(approved(), { secret: secretOf(2) })));
    expect(ok.status).toBe(200);
    const before = { size: (await service.inboxStats()).size, handled: handled() };
    log.length = 0;
    const minutes = (n: number) => new Date(Date.now() + n * 60_000);
    const refused = [
      signed(approved(), { secret: secretOf(9) }),
      signed(approved(), { destination: "billing" }),
      signed(approved(), { now: minutes(-6) }),
      signed(approved(), { now: minutes(6) }),
      signed({ ...approved(), sourceServiceId: "stranger" }),
      signed(approved()).replace('"orderId":"7"', '"orderId":"8"'),
    ];
    for (const body of refused) {
      const response = await service.receiver.fetch(post(body));
      expect([response.status, await response.text()]).toEqual([401, ""]);
    }
    expect({ size: (await service.inboxStats()).size, handled: handled() }).toEqual(before);
    const kinds = ["signature wrong", "timestamp too old", "timestamp too new", "unknown source"];
    expect(log.map(({ level, message, fields }) => `${level} ${message}: ${fields?.reason}`)).toEqual(
      kinds.map((reason) => `warn Inbox: HMAC verification failed: ${reason}`),
    );
  });

  it("MSG-18 refuses other paths and methods, what is malformed, and what is too large before it is read", async () => {
    const { service } = await inventory({ maxBodyBytes: 2_000, prefix: "/mail" });
    const status = async (request: Request) => (await service.receiver.fetch(request)).status;
    const at = "http://127.0.0.1/mail/receive";
    expect(await status(post(signed(approved())))).toBe(404);
    expect(await status(new Request(at))).toBe(405);
    expect(await status(post("{}", at))).toBe(400);
    expect(await status(post("x".repeat(2_001), at))).toBe(413);
    expect(await status(post(signed(approved()), at))).toBe(200);
  });

  it("MSG-09 MSG-18 a listener returns the same, and its connection serves the next message", async () => {
    const { service, log, handled } = await inventory({ maxBodyBytes: 2_000 });
    const listener = await listen({ address: "http://127.0.0.1:0", receiver: service.receiver });
    onTestFinished(() => listener.close());
    const address = listener.address.replace(/:(\d+).*/, ":$1/_rf/receive");
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const answerTo = async (body: string, to = address, method = "POST", isChunked = false) => {
      const headers = isChunked ? {} : { "content-length": Buffer.byteLength(body) };
      const sending = request(to, { method, agent, headers });
      const responding = once(sending, "response") as Promise<[IncomingMessage]>;
      sending.end(body);
      const [response] = await responding;
      return `${response.statusCode} ${await text(response)}`;
    };
    const message = signed(approved());
    const accepted = (duplicateDetected: boolean) =>
      `200 ${JSON.stringify({ acknowledged: true, duplicateDetected, payload: null })}`;
    expect(await answerTo(message, `${address}?a=b`)).toBe(accepted(false));
    expect(await answerTo(message, address, "POST", true)).toBe(accepted(true));
    expect(await answerTo(signed(approved(), { secret: secretOf(9) }))).toBe("401 ");
    expect(await answerTo("{}")).toBe("400 ");
    expect(await answerTo("x".repeat(2_001))).toBe("413 ");
    expect(await answerTo(message, `${address}/more`)).toBe("404 ");
    expect(await answerTo("", address, "GET")).toBe("405 ");
    expect(await answerTo(message)).toBe(accepted(true));

    const large = request(address, { method: "POST", agent });
    const refusing = once(large, "response") as Promise<[IncomingMessage]>;
    large.write(Buffer.alloc(20_000_000));
    const [refusal] = await refusing; // before its end
    expect(refusal.resume().statusCode).toBe(413);
    const finished = once(large, "finish");
    large.end();
    await finished;

    const cutOff = request(address, { method: "POST", headers: { "content-length": 1_000 } });
    cutOff.on("error", () => {}); // it is destroyed
    cutOff.write(message.slice(0, 10), () => cutOff.destroy());
    const malformed = () => log.filter(({ message: line }) => line === "Inbox: malformed message refused");
    await expect.poll(() => malformed().length).toBe(3); // those too large have one line
    expect(await answerTo(signed(approved()))).toBe(accepted(false));
    expect(handled()).toBe(2);
  });

  it("MSG-02 MSG-07 MSG-09 a command, its response and a request travel over HTTP and over a Unix socket", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-service-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const handled: string[] = [];
    const addresses = { orders: `unix://${folder}/orders.sock`, inventory: "http://127.0.0.1:0/_rf/receive" };
    const db = openSqlite({ file: join(folder, "orders.db") });
    const stock = await inventory({
      sources: {},
      destinations: { orders: { address: addresses.orders, secrets: [secretOf(1)], endpoints: "*" } },
    });
    const inventoryListener = await listen({
      address: addresses.inventory,
      receiver: stock.service.receiver,
    });
    const orders = createService({
      serviceId: "orders",
      db,
      messages,
      destinations: { inventory: { address: inventoryListener.address, secrets: [secretOf(1)] } },
      onResponse: {
        ReserveStock: ({ reservation }, { correlationId }) =>
          void handled.push(`${correlationId} ${reservation}`),
      },
    });
    await orders.init();
    const ordersListener = await listen({ address: addresses.orders, receiver: orders.receiver });
    onTestFinished(async () => {
      await orders.close();
      await ordersListener.close();
      await inventoryListener.close();
      await db.close();
    });
    orders.start();
    stock.service.start();
    await orders.send.ReserveStock("inventory", { item: "chair" }, { correlationId: "c-1" });
    await expect.poll(() => handled).toEqual(["c-1 chair"]);
    await expect
      .poll(async () => (await stock.service.outboxStats()).counts)
      .toMatchObject({ Sent: 1, Pending: 0, Sending: 0 });
    expect(handled).toEqual(["c-1 chair"]);
    expect(await orders.request.ReserveStock("inventory", { item: "table" })).toEqual({
      reservation: "table",
    });
    expect(stock.handled()).toBe(2);
  });

  it("MSG-09 MSG-18 by gRPC a receiver is reached whatever its prefix, and refuses what is above its own limit", async () => {
    const stock = await inventory({ prefix: "/custom", maxBodyBytes: 5_000 });
    const listener = await listen({ address: "grpc://127.0.0.1:0", receiver: stock.service.receiver });
    const db = openSqlite({ file: ":memory:" });
    const orders = createService({
      serviceId: "orders",
      db,
      messages,
      destinations: { inventory: { address: listener.address, secrets: [secretOf(1)] } },
    });
    onTestFinished(async () => {
      await orders.close();
      await listener.close();
      await db.close();
    });
    const request = (item: string) => orders.request.ReserveStock("inventory", { item }, { maxRetries: 0 });
    expect(await request("chair")).toEqual({ reservation: "chair" });
    await expect(request("x".repeat(5_000))).rejects.toThrow("status 413");
    await expect(request("x".repeat(100_000))).rejects.toThrow("status 413");
    expect(stock.handled()).toBe(1);
    const refused = stock.log.filter(({ message }) => message === "Inbox: malformed message refused");
    expect(refused.map(({ fields }) => fields?.reason)).toEqual(["too large"]); // one line in ten seconds
  });
});
