import {
  constants,
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { gunzipSync, inflateSync } from "node:zlib";
import { safeReason } from "../../base/logger.js";
import { type OpenBodies, openBodies, readBody } from "../../http/body.js";
import { listening } from "../../http/node.js";
import type { PlainResponse } from "../../http/plain.js";
import { grpcTarget } from "./address.js";
import { bodyOfFields, decodeMessage, encodeAcknowledgement } from "./grpc-messages.js";
import { grpcStatusOf, unimplemented } from "./grpc-transport.js";
import { type Listener, type ListenSettings, requireCertificate } from "./listen.js";

/** With `fetch`, whose own limit is not known. */
const usualMessageBytes = 16 * 1_048_576;
/** As of a receiver by HTTP: all messages that are read at the same time, before their signatures are verified. */
const unverifiedBytes = 64 * 1_048_576;
const bodyMs = 30_000;

/** No connection is older than this, plus the time in which its calls may end: its senders connect anew. */
const connectionMs = 300_000;
const graceMs = 60_000;

const limits = {
  settings: { maxConcurrentStreams: 256 }, // of one connection
  maxSessionMemory: 64, // MB: of responses that are not read
} as const;

/**
 * A gRPC server. Each message becomes the body that the receiver would get by HTTP, so one receiver serves both. It is made
 * of node:http2 alone: `@grpc/grpc-js` keeps what comes of every message in memory, and has no bound for all of them.
 */
export async function listenGrpc(settings: ListenSettings): Promise<Listener> {
  const { isSecure, authority, path } = grpcTarget(settings.address);
  const maxBytes = settings.receiver?.maxBodyBytes ?? usualMessageBytes;
  const unverified = openBodies({ maxBytes: Math.max(unverifiedBytes, maxBytes) });
  const calls: GrpcCalls = { settings, path, maxBytes, bodyMs, unverified };
  const server = isSecure ? secureServer(settings) : createServer(limits);
  const connections = openConnections(server);
  server.on("stream", (stream, headers) => void answerCall(stream, headers, calls));
  const at = authority.lastIndexOf(":");
  const host = authority.slice(0, at);
  await listening(server, { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(authority.slice(at + 1)) });
  const { port } = server.address() as AddressInfo;
  return {
    address: `${isSecure ? "grpcs" : "grpc"}://${host}:${port}${path}`,
    close: () =>
      new Promise((resolve) => {
        const late = setTimeout(connections.destroy, settings.stopMs);
        server.close(() => {
          clearTimeout(late);
          resolve();
        });
        connections.end();
      }),
  };
}

function secureServer(settings: ListenSettings): Http2Server {
  const tls = requireCertificate(settings);
  const asksForCertificate = tls.ca !== undefined;
  return createSecureServer({
    ...limits,
    ...tls,
    requestCert: asksForCertificate,
    rejectUnauthorized: asksForCertificate,
  });
}

/** Ends connections that are too old, and all of them when the server closes. */
function openConnections(server: Http2Server) {
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    const old = setTimeout(() => socket.destroy(), connectionMs + graceMs).unref();
    socket.once("close", () => {
      clearTimeout(old);
      sockets.delete(socket);
    });
  });
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => {}); // the sender has gone
    const old = setTimeout(() => session.close(), connectionMs).unref();
    session.once("close", () => {
      clearTimeout(old);
      sessions.delete(session);
    });
  });
  return {
    /** Lets running calls end. */
    end(): void {
      for (const session of sessions) session.close();
    },
    destroy(): void {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Before each message of gRPC: whether it is compressed, and its length. */
export const frameHeadBytes = 5;

const decompress = { gzip: gunzipSync, deflate: inflateSync } as const;
export const knownEncodings = ["identity", ...Object.keys(decompress)].join(",");

export function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([head, message]);
}

/** Returns the only message of a call, or why it cannot. A compressed one has no more than `maxBytes` when it is unpacked. */
export function unframed(
  bytes: Buffer,
  encoding: string | undefined,
  maxBytes: number,
): Buffer | "malformed" | "too large" | "unknown encoding" {
  const isWhole = bytes.byteLength >= frameHeadBytes;
  if (!isWhole || bytes.readUInt32BE(1) !== bytes.byteLength - frameHeadBytes) return "malformed";
  const message = bytes.subarray(frameHeadBytes);
  if (bytes[0] === 0) return message;
  if (!Object.hasOwn(decompress, encoding ?? "")) return "unknown encoding";
  try {
    return decompress[encoding as keyof typeof decompress](message, { maxOutputLength: maxBytes });
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE" ? "too large" : "malformed";
  }
}

export interface GrpcCalls {
  readonly settings: ListenSettings;
  readonly path: string;
  readonly maxBytes: number;
  /** The time that a message may take to arrive. */
  readonly bodyMs: number;
  /** The messages that are being read, before their signatures are verified. */
  readonly unverified: OpenBodies;
}

/** Answers one call. Never rejects. */
export async function answerCall(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  calls: GrpcCalls,
): Promise<void> {
  stream.on("error", () => {}); // the sender has gone
  const gone = new AbortController();
  stream.once("aborted", () => gone.abort());
  try {
    const response = await respond(stream, headers, calls, gone.signal);
    if (!stream.destroyed) send(stream, response);
  } catch (error) {
    if (gone.signal.aborted || stream.destroyed) return;
    calls.settings.logger.error("receiving failed", { error: safeReason(error) });
    send(stream, 500);
  }
  // What is left of a message that was not read to its end is not wanted.
  if (!stream.readableEnded && !stream.destroyed) stream.close(constants.NGHTTP2_NO_ERROR);
}

type Answer = Buffer | number | "unimplemented" | "no gRPC";

/** An acknowledgement, or the status of HTTP that stands for the refusal. */
async function respond(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  { settings, path, maxBytes, bodyMs, unverified }: GrpcCalls,
  signal: AbortSignal,
): Promise<Answer> {
  if (!headers["content-type"]?.startsWith("application/grpc")) return "no gRPC";
  if (headers[":path"] !== path || headers[":method"] !== "POST") return "unimplemented";
  const body = await readBody(
    { headers: noHeaders, body: stream },
    { maxBytes: maxBytes + frameHeadBytes, withinMs: bodyMs, among: unverified },
  );
  if (body === "too slow") return 408;
  if (body === "too many") return 503;
  const encoding = headers["grpc-encoding"];
  const message =
    typeof body === "string"
      ? body
      : unframed(Buffer.from(body.buffer, body.byteOffset, body.byteLength), String(encoding), maxBytes);
  if (message === "unknown encoding") return "unimplemented";
  if (message === "malformed") return 400;
  const response =
    message === "too large" ? await tooLarge(settings, maxBytes) : await posted(settings, message, signal);
  return acknowledgementOf(response) ?? response.status;
}

/** The metadata of a call is not read: all that counts is in the message. */
const noHeaders = { get: () => null };

/** The receiver refuses it by its length, and reports it. */
const tooLarge = async ({ receiver }: ListenSettings, maxBytes: number): Promise<PlainResponse> =>
  receiver?.handle({
    method: "POST",
    headers: { get: (name) => (name === "content-length" ? String(maxBytes + 1) : null) },
    body: null,
  }) ?? { status: 413 };

async function posted(
  { receiver, fetch, path }: ListenSettings,
  message: Uint8Array,
  signal: AbortSignal,
): Promise<PlainResponse> {
  const body = bodyOf(message);
  if (body === undefined) return { status: 400 };
  const method = "POST";
  if (receiver !== undefined) return receiver.handle({ method, headers: noHeaders, body: Buffer.from(body) });
  const headers = { "content-type": "application/json" };
  const response = await fetch(new Request(`http://grpc${path}`, { method, body, headers, signal }));
  return { status: response.status, body: await response.text() };
}

/** Undefined where the bytes are no message. */
function bodyOf(bytes: Uint8Array): string | undefined {
  try {
    return bodyOfFields(decodeMessage(bytes));
  } catch {
    return undefined;
  }
}

/** What a 200 or a 500 of a receiver says. Undefined for every other response. */
function acknowledgementOf({ status, body = "" }: PlainResponse): Buffer | undefined {
  if (status !== 200 && status !== 500) return undefined;
  const { acknowledged, duplicateDetected, payload, error, permanent } = JSON.parse(body) as Record<
    string,
    unknown
  >;
  return encodeAcknowledgement({
    acknowledged: acknowledged === true,
    duplicateDetected: duplicateDetected === true,
    payload: JSON.stringify(payload) ?? "",
    error: typeof error === "string" ? error : "",
    permanent: permanent === true,
  });
}

const content = {
  ":status": 200,
  "content-type": "application/grpc+proto",
  "grpc-accept-encoding": knownEncodings,
};

function send(stream: ServerHttp2Stream, answer: Answer): void {
  if (answer === "no gRPC") stream.respond({ ":status": 415 }, { endStream: true });
  else if (answer === "unimplemented") refuse(stream, unimplemented, "unknown method or encoding");
  else if (typeof answer === "number")
    refuse(stream, grpcStatusOf(answer), `status ${answer}`, { "rf-status": answer });
  else {
    stream.respond(content, { waitForTrailers: true });
    stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": 0 }));
    stream.end(framed(answer));
  }
}

function refuse(
  stream: ServerHttp2Stream,
  code: number,
  text: string,
  more: Readonly<Record<string, number>> = {},
): void {
  stream.respond({ ...content, "grpc-status": code, "grpc-message": text, ...more }, { endStream: true });
}
