import { once } from "node:events";
import { type ClientHttp2Session, connect, constants, type OutgoingHttpHeaders } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { deflateSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/base/logger.js";
import { type Listener, listen } from "../../../src/messaging/index.js";
import {
  type GrpcMessage,
  type GrpcService,
  loadGrpc,
} from "../../../src/messaging/transports/grpc-service.js";
import { openHttpApis, secretOf, signedBody } from "../../support/attacks/http-apis.js";
import { seededRandom } from "../../support/seeded-random.js";
import { times } from "../../support/times.js";
import { storedRows } from "../messaging/stored-rows.js";

let opened: Awaited<ReturnType<typeof openHttpApis>>;
let listener: Listener;
let service: GrpcService;
let url: URL;
beforeAll(async () => {
  opened = await openHttpApis(silentLogger);
  service = await loadGrpc();
  listener = await listen({
    address: "grpc://127.0.0.1:0",
    receiver: opened.messaging.receiver,
    stopMs: 100,
  });
  url = new URL(listener.address.replace("grpc:", "http:"));
});
afterAll(async () => {
  await listener.close();
  await opened.close();
});

/** A message as gRPC writes it, signed by a known service unless the secret is another. */
function wire(body = signedBody()): Buffer {
  const { payload, correlationId, ...rest } = JSON.parse(body);
  const message = { ...rest, correlationId: correlationId ?? "", payload: JSON.stringify(payload) };
  return service.method.requestSerialize(message as GrpcMessage);
}

/** A message with the five bytes before it. */
function framed(bytes: Uint8Array, { flag = 0, length = bytes.byteLength } = {}): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flag, 0);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, bytes]);
}

function open(): ClientHttp2Session {
  return connect(url.origin).on("error", () => {}); // attacks end connections
}

const post = () => ({
  ":method": "POST",
  ":path": url.pathname,
  "content-type": "application/grpc",
  te: "trailers",
});

interface Sent {
  readonly headers?: OutgoingHttpHeaders;
  readonly trailers?: OutgoingHttpHeaders;
  /** The parts of the body, a frame each. */
  readonly parts?: readonly Uint8Array[];
}

/** Returns gRPC's status, or why there is none. */
async function call(
  client: ClientHttp2Session,
  { headers = {}, trailers, parts = [] }: Sent,
): Promise<string> {
  const stream = client.request({ ...post(), ...headers }, { waitForTrailers: trailers !== undefined });
  let status: unknown;
  stream.on("error", () => {});
  stream.on("response", (head) => {
    status = head["grpc-status"] ?? (head[":status"] === 200 ? undefined : `http ${head[":status"]}`);
  });
  stream.on("trailers", (tail) => {
    status = tail["grpc-status"];
  });
  if (trailers !== undefined) stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  const closed = once(stream, "close");
  for (const part of parts) stream.write(part);
  stream.end();
  stream.resume();
  await closed;
  return status === undefined ? "no status" : String(status);
}

async function callOnce(sent: Sent): Promise<string> {
  const client = open();
  const status = await call(client, sent);
  client.destroy();
  return status;
}

const ok = String(constants.NGHTTP2_NO_ERROR);
const genuine = () => callOnce({ parts: [framed(wire())] });

/** What the attack was answered, with the proof that nothing of it was stored and that a known service is still served. */
async function survives(attack: () => Promise<string>): Promise<string> {
  const before = await storedRows(opened.db);
  const status = await attack();
  expect(await storedRows(opened.db)).toEqual(before);
  expect(await genuine()).toBe(ok);
  return status;
}

const varint = (value: number): Buffer => {
  const bytes: number[] = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
};
/** A field of text. */
const field = (number: number, bytes: Uint8Array): Buffer =>
  Buffer.concat([varint(number * 8 + 2), varint(bytes.byteLength), bytes]);
const zeros = (bytes: number) => Buffer.alloc(bytes);

const frames: Readonly<Record<string, () => Sent>> = {
  "no frame": () => ({}),
  "a part of the head": () => ({ parts: [zeros(4)] }),
  "an empty message": () => ({ parts: [framed(zeros(0))] }),
  "less than its length": () => ({ parts: [framed(wire(), { length: 5_000 })] }),
  "more than its length": () => ({ parts: [framed(wire(), { length: 10 })] }),
  "the greatest length": () => ({ parts: [framed(wire(), { length: 0xffff_ffff })] }),
  "a length above the limit": () => ({ parts: [framed(wire(), { length: 1_048_577 })] }),
  "a message above the limit": () => ({ parts: [framed(field(6, zeros(1_048_577)))] }),
  "two messages": () => ({ parts: [framed(wire()), framed(wire())] }),
  "compressed, by an unknown encoding": () => ({
    headers: { "grpc-encoding": "x" },
    parts: [framed(wire(), { flag: 1 })],
  }),
  "compressed, not gzip": () => ({
    headers: { "grpc-encoding": "gzip" },
    parts: [framed(wire(), { flag: 1 })],
  }),
  "gzip cut off": () => {
    const bytes = gzipSync(wire());
    return { headers: { "grpc-encoding": "gzip" }, parts: [framed(bytes.subarray(0, -9), { flag: 1 })] };
  },
  "gzip of 256 MiB": () => ({
    headers: { "grpc-encoding": "gzip" },
    parts: [framed(gzipSync(zeros(256 * 1_048_576)), { flag: 1 })],
  }),
  "deflate of 256 MiB": () => ({
    headers: { "grpc-encoding": "deflate" },
    parts: [framed(deflateSync(zeros(256 * 1_048_576)), { flag: 1 })],
  }),
  "a wrong signature": () => ({ parts: [framed(wire(signedBody({}, { secret: secretOf(9) })))] }),
  "not protobuf": () => ({ parts: [framed(Buffer.from("POST / HTTP/1.1\r\n\r\n"))] }),
  JSON: () => ({ parts: [framed(Buffer.from(signedBody()))] }),
  "groups within groups": () => ({ parts: [framed(Buffer.alloc(1_000_000, 0x0b))] }),
  "the ends of groups": () => ({ parts: [framed(Buffer.alloc(1_000_000, 0x0c))] }),
  "a varint without an end": () => ({ parts: [framed(Buffer.alloc(1_000, 0xff))] }),
  "field 0": () => ({ parts: [framed(field(0, Buffer.from("x")))] }),
  "a field beyond the end": () => ({
    parts: [framed(Buffer.concat([varint(50), varint(2 ** 31), zeros(9)]))],
  }),
  "a negative length": () => ({
    parts: [framed(Buffer.from([0x32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 2]))],
  }),
  "numbers for texts": () => ({ parts: [framed(Buffer.from([0x08, 1, 0x30, 1, 0x38, 1]))] }),
  "not UTF-8": () => ({ parts: [framed(field(6, Buffer.from([0xff, 0xfe, 0xc0, 0x80])))] }),
  "the header __proto__": () => {
    const entry = Buffer.concat([field(1, Buffer.from("__proto__")), field(2, Buffer.from("x"))]);
    return {
      parts: [framed(Buffer.concat([wire(signedBody({}, { secret: secretOf(9) })), field(7, entry)]))],
    };
  },
  "a hundred thousand headers": () => ({
    parts: [
      framed(Buffer.concat(Array.from({ length: 100_000 }, () => field(7, field(1, Buffer.from("a")))))),
    ],
  }),
  "a second payload behind the signed one": () => ({
    parts: [framed(Buffer.concat([wire(), field(6, Buffer.from('{"orderId":"8"}'))]))],
  }),
  "a second endpoint behind the signed one": () => ({
    parts: [framed(Buffer.concat([wire(), field(5, Buffer.from("Other"))]))],
  }),
  "another path": () => ({ headers: { ":path": "/RFReceiver/Other" }, parts: [framed(wire())] }),
  "another path, by dots": () => ({
    headers: { ":path": "/x/../RFReceiver/Other" },
    parts: [framed(wire())],
  }),
  GET: () => ({ headers: { ":method": "GET" }, parts: [] }),
  "another content type": () => ({
    headers: { "content-type": "application/json" },
    parts: [framed(wire())],
  }),
  "a timeout that is no number": () => ({ headers: { "grpc-timeout": "xS" }, parts: [framed(zeros(3))] }),
  "a timeout of 300 years": () => ({ headers: { "grpc-timeout": "99999999H" }, parts: [framed(zeros(3))] }),
  "a timeout below zero": () => ({ headers: { "grpc-timeout": "-1S" }, parts: [framed(zeros(3))] }),
  "a long header": () => ({ headers: { "x-long": "x".repeat(60_000) }, parts: [framed(zeros(3))] }),
  "metadata that is not base64": () => ({ headers: { "x-bin": "%%%" }, parts: [framed(zeros(3))] }),
};

/** What is signed, written in another way. A receiver may take it, once. */
const same: Readonly<Record<string, () => Sent>> = {
  "a message and a part": () => ({ parts: [framed(wire()), zeros(3)] }),
  "compressed, without an encoding": () => ({ parts: [framed(wire(), { flag: 1 })] }),
  "compressed, by identity": () => ({
    headers: { "grpc-encoding": "identity" },
    parts: [framed(wire(), { flag: 1 })],
  }),
  "a byte in each frame": () => ({ parts: [...framed(wire())].map((byte) => Buffer.of(byte)) }),
  "compressed by gzip": () => ({
    headers: { "grpc-encoding": "gzip" },
    parts: [framed(gzipSync(wire()), { flag: 1 })],
  }),
  "trailers of the sender": () => ({
    trailers: { "x-trailer": "1", "grpc-status": "0" },
    parts: [framed(wire())],
  }),
  "unknown fields": () => ({ parts: [framed(Buffer.concat([wire(), field(99, zeros(10))]))] }),
};

describe("gRPC frames of a stranger", () => {
  it.each(Object.entries(frames))("MSG-08 MSG-18 %s: refused, and others are served", async (_name, sent) => {
    expect(await survives(() => callOnce(sent()))).not.toBe(ok);
  });

  it.each(Object.entries(same))("MSG-09 %s: the same message", async (_name, sent) => {
    expect(await callOnce(sent())).toBe(ok);
    expect(await genuine()).toBe(ok);
  });

  it("MSG-08 MSG-18 changed bytes of a signed message: none is taken", async () => {
    const random = seededRandom(33);
    const below = (limit: number) => Math.floor(random() * limit);
    const count = times(200);
    const client = open();
    let attacks = 0;
    for (let done = 0; done < count; done++) {
      const bytes = framed(wire());
      const at = below(bytes.byteLength);
      const changed = (bytes[at]! + 1 + below(255)) % 256;
      const before = await storedRows(opened.db);
      bytes[at] = changed;
      const status = await call(client.destroyed ? open() : client, { parts: [bytes] });
      // A changed tag of a field that is empty says the same. Then the very message was stored that was signed.
      if (status === ok) expect(await storedRows(opened.db)).not.toEqual(before);
      else attacks++;
    }
    client.destroy();
    expect(attacks).toBeGreaterThan(count * 0.9);
    expect(await genuine()).toBe(ok);
  });
});

/** Sends bytes below HTTP/2. */
async function raw(write: (socket: Socket) => void): Promise<void> {
  const socket = connectTcp(Number(url.port), url.hostname);
  socket.on("error", () => {});
  await once(socket, "connect");
  write(socket);
  expect(await genuine()).toBe(ok); // meanwhile
  socket.destroy();
}

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
/** A frame of HTTP/2. */
function http2Frame(type: number, flags: number, stream: number, payload: Uint8Array = zeros(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.byteLength, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
const settings = http2Frame(4, 0, 0);
const many = (count: number, frame: (index: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, index) => frame(index)));

const connections: Readonly<Record<string, (socket: Socket) => void>> = {
  "HTTP/1.1": (socket) => socket.write("POST /RFReceiver/Receive HTTP/1.1\r\nhost: x\r\n\r\n"),
  "a part of the preface": (socket) => socket.write(preface.subarray(0, 10)),
  "TLS on a plain port": (socket) => socket.write(Buffer.from("1603010200010001fc0303", "hex")),
  "ten thousand pings": (socket) =>
    socket.write(Buffer.concat([preface, settings, many(10_000, () => http2Frame(6, 0, 0, zeros(8)))])),
  "ten thousand settings": (socket) =>
    socket.write(Buffer.concat([preface, many(10_000, () => http2Frame(4, 0, 0))])),
  "headers without an end": (socket) =>
    socket.write(
      Buffer.concat([
        preface,
        settings,
        http2Frame(1, 0, 1, Buffer.from([0x82])),
        many(1_000, () => http2Frame(9, 0, 1, zeros(16_000))),
      ]),
    ),
  "data for a stream that is not open": (socket) =>
    socket.write(Buffer.concat([preface, settings, http2Frame(0, 0, 7, zeros(100))])),
  "a frame above the greatest size": (socket) =>
    socket.write(Buffer.concat([preface, settings, http2Frame(0, 0, 1, zeros(20_000))])),
  "empty frames": (socket) =>
    socket.write(
      Buffer.concat([
        preface,
        settings,
        http2Frame(1, 4, 1, Buffer.from([0x83, 0x86, 0x84])),
        many(10_000, () => http2Frame(0, 0, 1)),
      ]),
    ),
  "a window that overflows": (socket) =>
    socket.write(
      Buffer.concat([preface, settings, many(2, () => http2Frame(8, 0, 0, Buffer.from("7fffffff", "hex")))]),
    ),
  "priorities of streams that depend on themselves": (socket) =>
    socket.write(
      Buffer.concat([preface, settings, many(5_000, (i) => http2Frame(2, 0, 2 * i + 1, zeros(5)))]),
    ),
  "random bytes": (socket) => {
    const random = seededRandom(9);
    socket.write(Buffer.concat([preface, Buffer.from(Array.from({ length: 50_000 }, () => random() * 256))]));
  },
};

describe("connections of a stranger", () => {
  it.each(Object.entries(connections))("MSG-18 %s: others are served", async (_name, write) => {
    await raw(write);
    expect(await genuine()).toBe(ok);
  });

  it("MSG-18 three thousand calls that are reset at once: others are served", async () => {
    await survives(async () => {
      const client = open();
      const closed: Promise<unknown>[] = [];
      for (let index = 0; index < 3_000 && !client.destroyed; index++) {
        const stream = client.request(post());
        stream.on("error", () => {});
        closed.push(once(stream, "close").catch(() => {}));
        stream.close(constants.NGHTTP2_CANCEL);
      }
      await Promise.all(closed);
      client.destroy();
      return "no status";
    });
  });

  it("MSG-18 a thousand calls at once that send nothing: others are served meanwhile", async () => {
    const client = open();
    for (let index = 0; index < 1_000; index++) {
      const stream = client.request(post());
      stream.on("error", () => {});
      stream.write(zeros(3));
    }
    for (let count = 0; count < 5; count++) expect(await genuine()).toBe(ok);
    client.destroy();
    expect(await genuine()).toBe(ok);
  });
});
