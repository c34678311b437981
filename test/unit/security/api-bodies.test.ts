import { type ClientHttp2Stream, connect, type IncomingHttpHeaders } from "node:http2";
import type { Readable } from "node:stream";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { silentLogger } from "../../../src/base/logger.js";
import { listen } from "../../../src/messaging/index.js";
import { grpcTransport } from "../../../src/messaging/transports/grpc-transport.js";
import {
  type ApiRoute,
  envelope,
  type HttpApi,
  openHttpApis,
  secretOf,
  signedBody,
} from "../../support/attacks/http-apis.js";
import { heldBytes, nextTurn, push, stalled } from "../../support/attacks/stalled-bodies.js";

const mebibyte = 1_048_576;
let opened: Awaited<ReturnType<typeof openHttpApis>>;
beforeAll(async () => {
  opened = await openHttpApis(silentLogger);
});
afterAll(() => opened.close());
afterEach(() => {
  vi.useRealTimers();
});

const apiNamed = (name: string): HttpApi => opened.apis.find((one) => one.name === name)!;

const send = (
  { respond }: Pick<HttpApi, "respond">,
  { method, path }: ApiRoute,
  body: Readable,
  headers: Readonly<Record<string, string>> = {},
) =>
  respond({
    method,
    url: `http://127.0.0.1${path}`,
    path,
    headers: { get: (name) => headers[name] ?? null },
    body,
    client: "192.0.2.1",
  });

describe("bodies for the messaging receiver, before its signature is seen", () => {
  const receiver = () => apiNamed("messaging receiver");
  const toReceiver = (body: Readable, headers?: Record<string, string>) =>
    send(receiver(), receiver().routes[0]!, body, headers);

  it("MSG-18 too large: refused by its declared length, and while it comes in", async () => {
    const unread = stalled();
    expect((await toReceiver(unread, { "content-length": String(2 * mebibyte) })).status).toBe(413);
    expect(unread.readableFlowing).toBe(null);
    const body = stalled();
    const response = toReceiver(body);
    await push(body, 2 * mebibyte);
    expect((await response).status).toBe(413);
  });

  it("MSG-18 chunks of one byte take no more memory than the bytes, and are a message like any other", async () => {
    const before = heldBytes();
    const body = stalled();
    const response = toReceiver(body);
    await push(body, 300_000, "bytes");
    expect(heldBytes() - before).toBeLessThan(3_000_000);
    body.push(null);
    expect((await response).status).toBe(400);
    const genuine = stalled();
    const answer = toReceiver(genuine);
    for (const byte of Buffer.from(signedBody())) genuine.push(Buffer.of(byte));
    genuine.push(null);
    expect((await answer).status).toBe(200);
  });

  it("MSG-18 stalled ones are bounded: the largest are refused, and a small message is still received", async () => {
    const before = heldBytes();
    const bodies = Array.from({ length: 100 }, stalled);
    const statuses: number[] = [];
    for (const body of bodies) {
      void toReceiver(body).then(({ status }) => {
        statuses.push(status);
        body.removeAllListeners("data").resume(); // as the server does
      });
      await push(body, mebibyte - 1);
    }
    expect(statuses.length).toBeGreaterThan(30);
    expect(new Set(statuses)).toEqual(new Set([503]));
    expect(heldBytes() - before).toBeLessThan(100 * mebibyte);
    const small = stalled();
    const answer = toReceiver(small);
    small.push(signedBody());
    small.push(null);
    expect((await answer).status).toBe(200);
    for (const body of bodies) body.destroy();
  });

  it("MSG-18 one that does not arrive within 30 s is refused", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const response = toReceiver(stalled());
    await nextTurn();
    vi.advanceTimersByTime(30_000);
    expect((await response).status).toBe(408);
  });
});

describe("messages by gRPC, before their signature is seen", () => {
  async function listening() {
    const listener = await listen({
      address: "grpc://127.0.0.1:0",
      receiver: opened.messaging.receiver,
      stopMs: 100,
    });
    onTestFinished(() => listener.close());
    const url = new URL(listener.address.replace("grpc:", "http:"));
    return {
      address: listener.address,
      /** A connection: each call has the head of a message of so many bytes. */
      connected() {
        // An attacker's client takes any answer, whatever it has still to send.
        const client = connect(url.origin, { maxSessionMemory: 1_000 }).on("error", () => {});
        onTestFinished(() => client.destroy());
        const open = (length: number, headers: Record<string, string> = {}, compressed = 0) => {
          const call = client.request({
            ":method": "POST",
            ":path": url.pathname,
            "content-type": "application/grpc",
            ...headers,
          });
          call.on("error", () => {});
          const head = Buffer.alloc(5);
          head.writeUInt8(compressed);
          head.writeUInt32BE(length, 1);
          call.write(head);
          return call;
        };
        return { open, closed: new Promise((resolve) => client.once("close", resolve)) };
      },
    };
  }
  const statusOf = async (call: ClientHttp2Stream) => {
    const headers = await new Promise<IncomingHttpHeaders>((resolve) => call.once("response", resolve));
    return `${headers[":status"]} ${headers["grpc-status"]} ${headers["rf-status"]}`;
  };
  const block = Buffer.alloc(65_536); // one for all, so that the sender takes no memory

  it("MSG-09 stalled ones are bounded, over all connections, and a small message is still received", async () => {
    const { connected, address } = await listening();
    const before = heldBytes();
    const statuses: string[] = [];
    const ends: Promise<unknown>[] = [];
    for (let n = 0; n < 10; n++) {
      const { open, closed } = connected();
      ends.push(closed);
      for (let m = 0; m < 15; m++) {
        const call = open(mebibyte - 1);
        void statusOf(call).then((status) => statuses.push(status));
        for (let sent = 0; sent < 15; sent++) call.write(block);
      }
    }
    // 150 messages of nearly 1 MiB: connections are closed until the rest is below 64 MiB
    await Promise.race(ends);
    await expect.poll(() => statuses.length, { timeout: 20_000 }).toBeGreaterThan(0);
    expect(new Set(statuses)).toEqual(new Set(["200 8 503"]));
    await expect.poll(() => heldBytes() - before, { timeout: 20_000 }).toBeLessThan(80 * mebibyte);
    const transport = grpcTransport();
    onTestFinished(() => transport.close());
    const response = await transport.send(
      envelope(),
      { serviceId: "inventory", address, secrets: [secretOf(1)] },
      { signal: new AbortController().signal },
    );
    expect(response).toMatchObject({ acknowledged: true });
  }, 60_000);

  it("MSG-09 one that is too large, cut short, or a compression bomb is refused", async () => {
    const { connected } = await listening();
    const { gzipSync } = await import("node:zlib");
    const bomb = gzipSync(Buffer.alloc(50 * mebibyte));
    const open = (...given: Parameters<ReturnType<typeof connected>["open"]>) => connected().open(...given);
    expect(await statusOf(open(2 * mebibyte))).toBe("200 8 413");
    const packed = open(bomb.byteLength, { "grpc-encoding": "gzip" }, 1);
    packed.end(bomb);
    expect(await statusOf(packed)).toBe("200 8 413");
    const unknown = open(3, { "grpc-encoding": "br" }, 1);
    unknown.end("abc");
    expect(await statusOf(unknown)).toBe("200 12 undefined");
    const noMessage = open(3);
    noMessage.end("abc");
    expect(await statusOf(noMessage)).toBe("200 3 400");
    const cut = open(100);
    cut.end("short");
    expect(await statusOf(cut)).toBe("200 12 undefined"); // no message: the sender tries again
    const page = open(1, { "content-type": "text/plain" });
    expect(await statusOf(page)).toBe("415 undefined undefined");
  });

  it("MSG-09 one that does not arrive within 30 s is refused, and its connection is closed", async () => {
    const { connected } = await listening();
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const { open, closed } = connected();
    const call = open(100);
    await nextTurn();
    const status = statusOf(call);
    const timer = setInterval(() => vi.advanceTimersByTime(30_000), 20);
    expect(await status).toBe("200 13 408");
    await closed;
    clearInterval(timer);
  });

  it("MSG-09 a call whose own deadline passes keeps no memory either", async () => {
    const { connected } = await listening();
    const { open, closed } = connected();
    const call = open(mebibyte - 1, { "grpc-timeout": "200m" });
    for (let sent = 0; sent < 10; sent++) call.write(block);
    expect(await statusOf(call)).toBe("200 4 undefined");
    await closed;
  });
});

describe("bodies for APIs with a token", () => {
  const apis = () => opened.apis.filter(({ right }) => right !== undefined);
  const takesBodies = ({ name }: HttpApi) => name !== "diagnostics of a messaging service";

  it("SVC-07 MSG-14 nothing is read of a body without the right token", async () => {
    for (const one of apis())
      for (const route of one.routes.filter(({ method }) => method === "POST")) {
        opened.clock.ms += 60_000;
        const body = stalled();
        body.push("{");
        expect(
          (await send(one, route, body, { authorization: "Bearer x:wrong-secret-0123456789" })).status,
        ).toBe(401);
        expect(body.readableFlowing, route.path).toBe(null);
      }
  });

  it("SVC-07 MSG-14 with it, one that is too large or too slow is refused", async () => {
    for (const one of apis().filter(takesBodies)) {
      const route = one.routes.find(({ method }) => method === "POST")!;
      const headers = { authorization: one.right! };
      const limit = one.name === "inbox service" ? 16_384 : 4 * mebibyte;
      const body = stalled();
      const response = send(one, route, body, headers);
      await nextTurn();
      await push(body, limit + 1);
      expect((await response).body, one.name).toContain("BodyTooLarge");
      const declared = await send(one, route, stalled(), { ...headers, "content-length": String(limit + 1) });
      expect(declared.body).toContain("BodyTooLarge");
      vi.useFakeTimers({ toFake: ["setTimeout"] });
      const slow = send(one, route, stalled(), headers);
      await nextTurn();
      vi.advanceTimersByTime(10_000);
      expect((await slow).body, one.name).toContain("BodyUnreadable");
      vi.useRealTimers();
    }
  });

  it("MSG-14 nothing is read of a body that no route takes, whatever its size", async () => {
    for (const one of apis().filter((api) => !takesBodies(api))) {
      const route = one.routes.find(({ method }) => method === "POST")!;
      const body = stalled();
      body.push("{");
      expect((await send(one, route, body, { authorization: one.right! })).body).toContain("NotFound");
      expect(body.readableFlowing, route.path).toBe(null);
    }
  });

  it("SVC-07 without tokens, stalled bodies hold no more than their bytes", async () => {
    const before = heldBytes();
    const bodies = Array.from({ length: 500 }, stalled);
    for (const body of bodies) {
      void send(opened.open, opened.open.routes[0]!, body);
      await push(body, 16_000);
    }
    expect(heldBytes() - before).toBeLessThan(3 * 500 * 16_384);
    for (const body of bodies) body.destroy();
  });
});
