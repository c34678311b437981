import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { EventBridgeClient } from "@aws-sdk/client-eventbridge";
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, it } from "vitest";
import {
  createDispatcher,
  createOutbox,
  migrate,
  type OutboxMessage,
  PermanentFailure,
  RetryAfter,
  timeBudget,
} from "../../../src/index.js";
import { eventBridgePublisher, functionPublisher, webhookPublisher } from "../../../src/publishers/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Answer = readonly [status: number, headers?: Record<string, string>, body?: string];

let servers: Server[] = [];
afterEach(async () => {
  for (const server of servers) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  servers = [];
});

/** A real HTTP server on a port of its own. */
async function serve(answer: (received: Received) => Answer) {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    received.push({ headers: request.headers, body });
    const [status, headers = {}, text = ""] = answer(received.at(-1)!);
    response.writeHead(status, headers).end(text);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

const secret = `whsec_${Buffer.from("a secret of 24 bytes or so").toString("base64")}`;
const context = { signal: new AbortController().signal };
const message = {
  id: "0190a5e0-0000-7000-8000-000000000001",
  messageId: "0190a5e0-0000-7000-8000-000000000002",
  topic: "order.placed",
  payload: '{"n":1}',
  headers: { "x-own": "1", host: "evil.example", "content-length": "3" },
  correlationId: null,
};

const loopback = { allowHttp: true, allowPrivateAddresses: true } as const;

describe("webhooks out", () => {
  it("MID-09 MID-12 are signed by Standard Webhooks, as its own library checks, with the message's id on every attempt", async () => {
    const { url, received } = await serve(() => [204]);
    const publish = webhookPublisher({ ...loopback, url: `${url}/hooks`, secrets: secret });
    await publish({ ...message, type: "order.v2" }, context);
    const { headers, body } = received[0]!;
    expect(body).toBe('{"n":1}');
    expect(headers).toMatchObject({
      "webhook-id": message.messageId,
      "x-own": "1",
      "oncebox-topic": "order.placed",
      "oncebox-type": "order.v2",
    });
    expect(new Webhook(secret).verify(body, headers as Record<string, string>)).toEqual({ n: 1 });
    expect(() => new Webhook(secret).verify('{"n":2}', headers as Record<string, string>)).toThrow();
  });

  it("MID-09 each header is sent once, whatever its case, and none can replace the signature", async () => {
    const { url, received } = await serve(() => [204]);
    const publish = webhookPublisher({ ...loopback, url, secrets: secret, headers: { "X-Own": "ours" } });
    const headers = {
      "Content-Type": "text/plain",
      "x-own": "theirs",
      "Webhook-Id": "evil",
      "webhook-signature": "v1,x",
    };
    await publish({ ...message, headers }, context);
    expect(received[0]!.headers).toMatchObject({
      "content-type": "text/plain",
      "x-own": "ours",
      "webhook-id": message.messageId,
    });
    const { body, headers: sentHeaders } = received[0]!;
    expect(new Webhook(secret).verify(body, sentHeaders as Record<string, string>)).toEqual({ n: 1 });
  });

  it("ADD-10 a message whose headers HTTP cannot carry fails for good, and does not count against the receiver", async () => {
    const { url, received } = await serve(() => [204]);
    const publish = webhookPublisher({ ...loopback, url, secrets: secret, breaker: { failures: 1 } });
    const failure = await publish({ ...message, headers: { note: "two\nlines" } }, context).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(PermanentFailure);
    expect((failure as Error).message).toContain("note");
    expect((failure as Error).message).not.toContain("lines");
    await publish(message, context);
    expect(received).toHaveLength(1);
  });

  it("ADD-12 410 is a permanent failure, Retry-After sets the delay, and everything else is retried", async () => {
    const answers: Answer[] = [
      [410],
      [429, { "retry-after": "7" }],
      [503, { "retry-after": new Date(Date.now() + 3_600_000).toUTCString() }],
      [500],
      [302, { location: "http://127.0.0.1:9" }],
    ];
    const { url } = await serve(() => answers.shift()!);
    const publish = webhookPublisher({ ...loopback, url, secrets: secret });
    const failure = () => publish(message, context).catch((error: unknown) => error);
    expect(await failure()).toBeInstanceOf(PermanentFailure);
    const later = await failure();
    expect(later).toBeInstanceOf(RetryAfter);
    expect((later as RetryAfter).delayMs).toBe(7_000);
    const dated = (await failure()) as RetryAfter;
    expect(dated).toBeInstanceOf(RetryAfter);
    expect(dated.delayMs).toBeGreaterThan(3_000_000);
    for (const status of [500, 302]) {
      const error = (await failure()) as Error;
      expect(error).not.toBeInstanceOf(PermanentFailure);
      expect(error.message).toContain(String(status));
    }
  });

  it("ADD-10 the breaker of one dead receiver opens while the others get all their messages", async () => {
    const dead = await serve(() => [503]);
    const alive = await serve(() => [200]);
    const db = openSqlite({ file: ":memory:" });
    try {
      await migrate(db);
      const outbox = createOutbox(db);
      await outbox.enqueue(
        Array.from({ length: 60 }, (_, n) => ({ topic: n % 2 === 0 ? "dead" : "alive", payload: `${n}` })),
      );
      const breaker = { failures: 3, openMs: 60_000 };
      const dispatcher = createDispatcher<OutboxMessage>({
        concurrency: 4,
        handlers: {
          dead: webhookPublisher({ ...loopback, url: dead.url, secrets: secret, breaker }),
          alive: webhookPublisher({ ...loopback, url: alive.url, secrets: secret, breaker }),
        },
      });
      await dispatcher.run(outbox, timeBudget(30_000));
      expect(alive.received).toHaveLength(30);
      expect(dead.received.length).toBeLessThanOrEqual(3 + 4);
      expect((await outbox.stats()).counts).toMatchObject({ Done: 30, Ready: 30, Failed: 0 });
      const waiting = (await outbox.list({ topic: "dead" })).messages;
      const tried = waiting.filter(({ attempt }) => attempt > 0);
      expect(tried).toHaveLength(dead.received.length); // the others were put off, and it cost them no attempt
    } finally {
      await db.close();
    }
  });

  it("ADD-10 a receiver that never answers takes no more slots than its topic may have, and the others get all their messages", async () => {
    let held = 0;
    const silent = createServer(() => void held++); // takes the request and never answers
    servers.push(silent);
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const stopping = new AbortController();
    const alive = await serve(() => {
      if (alive.received.length === 30) stopping.abort(); // all of them, while the others still wait
      return [200];
    });
    const db = openSqlite({ file: ":memory:" });
    try {
      await migrate(db);
      const outbox = createOutbox(db);
      await outbox.enqueue(Array.from({ length: 30 }, (_, n) => ({ topic: "silent", payload: `${n}` })));
      await outbox.enqueue(Array.from({ length: 30 }, (_, n) => ({ topic: "alive", payload: `${n}` })));
      const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
      const dispatcher = createDispatcher<OutboxMessage>({
        concurrency: 4,
        handlers: {
          silent: {
            handle: webhookPublisher({ ...loopback, url, secrets: secret, timeoutMs: 600_000 }),
            concurrency: 2,
          },
          alive: webhookPublisher({ ...loopback, url: alive.url, secrets: secret }),
        },
      });
      const { signal } = stopping;
      await dispatcher.run(outbox, { signal, remainingMs: () => (signal.aborted ? 1_000 : 600_000) });
      expect(alive.received).toHaveLength(30);
      expect(held).toBe(2);
      expect((await outbox.stats()).counts).toMatchObject({ Done: 30, Ready: 30, InProgress: 0 });
    } finally {
      await db.close();
    }
  });

  it("MID-09 an unusable secret or address is refused when the publisher is made, and the error does not quote the secret", () => {
    const bad = () => webhookPublisher({ url: "https://example.com", secrets: "whsec_!!not base64!!" });
    expect(bad).toThrow(/secrets\[0\]/);
    expect(bad).not.toThrow(/not base64!!/);
    expect(() => webhookPublisher({ url: "ftp://example.com", secrets: secret })).toThrow(/http/);
    expect(() => webhookPublisher({ url: "https://example.com", secrets: [] })).toThrow(/secret/);
    expect(() =>
      webhookPublisher({ url: "https://example.com", secrets: secret, retries: 1 } as never),
    ).toThrow(/unknown option retries/);
  });
});

describe("EventBridge, behind the AWS SDK", () => {
  it("MID-09 MID-12 events are sent ten per request, and each is settled by itself", async () => {
    const { url, received } = await serve(({ body }) => {
      const { Entries: entries } = JSON.parse(body) as { Entries: { Detail: string }[] };
      const answers = entries.map(({ Detail }) =>
        Detail.includes('"bad"')
          ? { ErrorCode: "ThrottlingException", ErrorMessage: "slow down" }
          : { EventId: "e" },
      );
      const failed = answers.filter((answer) => "ErrorCode" in answer).length;
      return [
        200,
        { "content-type": "application/x-amz-json-1.1" },
        JSON.stringify({ FailedEntryCount: failed, Entries: answers }),
      ];
    });
    const client = new EventBridgeClient({
      endpoint: url,
      region: "us-east-1",
      credentials: { accessKeyId: "test", secretAccessKey: "test" },
    });
    const publish = eventBridgePublisher({ source: "com.example", client });
    const ends = await Promise.allSettled([
      ...Array.from({ length: 14 }, (_, n) =>
        publish({ ...message, type: `order.v${n}`, payload: JSON.stringify({ n }) }, context),
      ),
      publish({ ...message, payload: '{"bad":1}' }, context),
      publish({ ...message, payload: "[1]" }, context),
      publish({ ...message, payload: JSON.stringify({ large: "x".repeat(262_144) }) }, context),
    ]);
    expect(received).toHaveLength(2);
    expect(JSON.parse(received[0]!.body)).toMatchObject({
      Entries: expect.arrayContaining([
        { Source: "com.example", DetailType: "order.v0", Detail: '{"n":0}', EventBusName: "default" },
      ]),
    });
    expect(ends.slice(0, 14).every((end) => end.status === "fulfilled")).toBe(true);
    expect((ends[14] as PromiseRejectedResult).reason).toMatchObject({
      message: expect.stringContaining("Throttling"),
    });
    for (const end of ends.slice(15))
      expect((end as PromiseRejectedResult).reason).toBeInstanceOf(PermanentFailure);
  });
});

describe("functionPublisher", () => {
  it("MID-09 ADD-10 publishes with a breaker around it", async () => {
    let calls = 0;
    const publish = functionPublisher({
      destination: "The broker",
      breaker: { failures: 2 },
      publish: async () => {
        calls++;
        throw new Error("away");
      },
    });
    for (let i = 0; i < 5; i++) await publish(message, context).catch(() => {});
    expect(calls).toBe(2);
    await expect(publish(message, context)).rejects.toThrow("The broker has been failing");
    expect(() => functionPublisher({ destination: "x", publish: 1 as never })).toThrow(/publish/);
  });
});
