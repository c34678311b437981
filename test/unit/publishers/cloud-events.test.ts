import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Ajv } from "ajv";
import addFormats from "ajv-formats";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  createDispatcher,
  createOutbox,
  migrate,
  type Outbox,
  type OutboxMessage,
  type OutgoingMessage,
  timeBudget,
} from "../../../src/index.js";
import {
  functionPublisher,
  type PublishedMessage,
  type Publisher,
  sqsPublisher,
  webhookPublisher,
} from "../../../src/publishers/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

/** The JSON format of CloudEvents 1.0 (sections 3.1 of the specification and of its JSON format), with the names of extensions. */
const schema = {
  type: "object",
  required: ["specversion", "id", "source", "type"],
  properties: {
    specversion: { const: "1.0" },
    id: { type: "string", minLength: 1 },
    source: { type: "string", minLength: 1, format: "uri-reference" },
    type: { type: "string", minLength: 1 },
    subject: { type: "string", minLength: 1 },
    time: { type: "string", format: "date-time" },
    datacontenttype: { type: "string", minLength: 1 },
    dataschema: { type: "string", format: "uri" },
    data: {},
    data_base64: { type: "string", contentEncoding: "base64" },
  },
  patternProperties: { "^[a-z0-9]+$": { type: ["string", "number", "boolean", "object", "array", "null"] } },
  additionalProperties: false,
  not: { required: ["data", "data_base64"] },
  // of an attribute that is no data: a text without control characters
  propertyNames: { pattern: "^(data_base64|[a-z0-9]{1,20})$" },
};
const ajv = new Ajv({ strict: false });
addFormats.default(ajv);
const isEvent = ajv.compile(schema);

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

const secret = `whsec_${Buffer.from("a secret of 24 bytes or so").toString("base64")}`;

describe("CloudEvents", () => {
  let server: Server;
  let received: Received[];
  let outbox: Outbox;
  beforeEach(async () => {
    received = [];
    server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      received.push({ headers: request.headers, body: Buffer.concat(chunks) });
      response.writeHead(204).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    outbox = createOutbox(db);
    return () => db.close();
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  /** Sends a message from an outbox. */
  const send = async (publish: Publisher, message: OutgoingMessage): Promise<OutboxMessage> => {
    const id = await outbox.enqueue(message);
    await createDispatcher<OutboxMessage>({ handlers: { [message.topic]: publish } }).run(
      outbox,
      timeBudget(30_000),
    );
    return (await outbox.get({ id }))!;
  };
  const byWebhook = (options: object) =>
    webhookPublisher({
      ...{ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, secrets: secret },
      ...{ allowHttp: true, allowPrivateAddresses: true, ...options },
    });
  /** What a function of the user's own gets. */
  const written = async (message: OutgoingMessage, options: object = {}) => {
    const published: PublishedMessage[] = [];
    const publish = async (one: PublishedMessage) => void published.push(one);
    const stored = await send(
      functionPublisher({ destination: "x", publish, format: "cloudevents", ...options }),
      message,
    );
    const [one] = published;
    const event = one && (JSON.parse(one.payload) as Record<string, unknown>);
    if (event !== undefined) {
      expect(isEvent(event), JSON.stringify(isEvent.errors)).toBe(true);
    }
    return { stored, text: one?.payload, headers: one?.headers, event };
  };

  const order: OutgoingMessage = {
    topic: "order.placed",
    type: "com.example.order.placed.v2",
    payload: '{"total":12345678901234567890.10}',
    correlationId: "trace-1",
    partitionKey: "customer-7",
    headers: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-own": "1" },
  };

  it("MID-12 structured: the event has id, source, type, subject, time and the data, digit for digit", async () => {
    const { stored, event, text, headers } = await written(order, { source: "https://example.com/shop" });
    expect(event).toEqual({
      specversion: "1.0",
      id: stored.messageId,
      source: "https://example.com/shop",
      type: "com.example.order.placed.v2",
      time: stored.createdAt.toISOString(),
      subject: "customer-7",
      partitionkey: "customer-7",
      correlationid: "trace-1",
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      datacontenttype: "application/json",
      data: JSON.parse(order.payload),
    });
    expect(text).toContain('"data":{"total":12345678901234567890.10}');
    expect(headers).toMatchObject({ "content-type": "application/cloudevents+json", "x-own": "1" });
  });

  it("MID-12 the type is the topic by default, the source a URN, and a natural key comes before the partition key as subject", async () => {
    const { event } = await written({
      topic: "order.placed",
      payload: "1",
      naturalKey: "order-7",
      partitionKey: "customer-7",
    });
    expect(event).toMatchObject({
      type: "order.placed",
      source: "urn:oncebox:outbox",
      subject: "order-7",
      partitionkey: "customer-7",
    });
    expect(Object.keys((await written({ topic: "plain", payload: "1" })).event!).sort()).toEqual(
      ["specversion", "id", "source", "type", "time", "datacontenttype", "data"].sort(),
    );
  });

  it.each([
    [
      "a text without a content type",
      { payload: "it's ü" },
      { datacontenttype: "text/plain", data: "it's ü" },
    ],
    [
      "XML",
      { payload: "<a/>", headers: { "Content-Type": "application/xml" } },
      { datacontenttype: "application/xml", data: "<a/>" },
    ],
    [
      "a JSON type of its own",
      { payload: "[1]", headers: { "content-type": "application/vnd.x+json; charset=utf-8" } },
      { datacontenttype: "application/vnd.x+json; charset=utf-8", data: [1] },
    ],
    [
      "bytes",
      { payload: "AP8=", headers: { "oncebox-payload-encoding": "base64", "content-type": "image/png" } },
      { datacontenttype: "image/png", data_base64: "AP8=" },
    ],
  ])("MID-12 structured: %s", async (_, content, expected) => {
    const { event } = await written({ topic: "t", ...content });
    expect(event).toMatchObject(expected);
  });

  it("MID-12 structured: an empty payload is an event without data, and a wrong content type a permanent failure", async () => {
    const { event } = await written({ topic: "empty", payload: "" });
    expect(event).not.toHaveProperty("data");
    expect(event).not.toHaveProperty("datacontenttype");
    const { stored } = await written({
      topic: "wrong",
      payload: "no JSON",
      headers: { "content-type": "application/json" },
    });
    expect(stored).toMatchObject({
      state: "Failed",
      lastError: expect.stringContaining("content-type is JSON"),
    });
    expect(stored.lastError).not.toContain("no JSON");
  });

  it("MID-12 by HTTP, structured: the body is the event, and the signature is over it", async () => {
    const stored = await send(byWebhook({ format: "cloudevents" }), order);
    const { headers, body } = received[0]!;
    expect(headers["content-type"]).toBe("application/cloudevents+json");
    expect(headers["oncebox-type"]).toBe("com.example.order.placed.v2");
    const event = new Webhook(secret).verify(body, headers as Record<string, string>);
    expect(isEvent(event), JSON.stringify(isEvent.errors)).toBe(true);
    expect(event).toMatchObject({ id: stored.messageId, type: order.type });
  });

  it("MID-12 by HTTP, binary: attributes are headers, percent-encoded where a header needs it, and the body is the payload", async () => {
    const stored = await send(byWebhook({ format: "cloudevents-binary", source: "/shop" }), {
      ...order,
      partitionKey: 'Zürich "7" 100%',
    });
    const { headers, body } = received[0]!;
    expect(body.toString()).toBe(order.payload);
    expect(headers).toMatchObject({
      "ce-specversion": "1.0",
      "ce-id": stored.messageId,
      "ce-source": "/shop",
      "ce-type": "com.example.order.placed.v2",
      "ce-time": stored.createdAt.toISOString(),
      "ce-subject": "Z%C3%BCrich%20%227%22%20100%25",
      "ce-correlationid": "trace-1",
      "content-type": "application/json",
      "x-own": "1",
    });
    expect(headers).not.toHaveProperty("ce-datacontenttype");
    new Webhook(secret).verify(body, headers as Record<string, string>);
  });

  it("MID-12 by HTTP, binary: bytes are sent as the bytes that they were", async () => {
    await send(byWebhook({ format: "cloudevents-binary" }), {
      topic: "t",
      payload: "AP8=",
      headers: { "oncebox-payload-encoding": "base64", "content-type": "image/png" },
    });
    const { headers, body } = received[0]!;
    expect(body).toEqual(Buffer.from([0, 255]));
    expect(headers["content-type"]).toBe("image/png");
    expect(headers).not.toHaveProperty("oncebox-payload-encoding");
  });

  it("MID-12 a wrong format or source is refused when the publisher is made", () => {
    const queueUrl = "https://sqs.eu-central-1.amazonaws.com/1/orders";
    for (const format of ["cloudevents-binary", "cloudevent", ""])
      expect(() => sqsPublisher({ queueUrl, format: format as "cloudevents" })).toThrow(
        /format must be cloudevents\./,
      );
    expect(() => byWebhook({ format: "json" })).toThrow(/format must be cloudevents or cloudevents-binary\./);
    for (const source of ["", "two words", "50%", 7])
      expect(() => byWebhook({ format: "cloudevents", source })).toThrow(/source must be a URI/);
    expect(() => byWebhook({ source: "/shop" })).toThrow(/source is of CloudEvents/);
  });
});
