import { type AddressInfo, createServer, type Socket } from "node:net";
import type {
  handleUnaryCall,
  ServerCredentials,
  ServerInterceptingCallInterface,
  ServerInterceptor,
} from "@grpc/grpc-js";
import { safeReason } from "../../base/logger.js";
import { listening } from "../../http/node.js";
import type { PlainResponse } from "../../http/plain.js";
import type { MessageType } from "../envelope.js";
import { attempt } from "../open-envelope.js";
import { serialiseEnvelope } from "../sign-envelope.js";
import { grpcTarget } from "./address.js";
import {
  type GrpcAcknowledgement,
  type GrpcMessage,
  type GrpcService,
  grpcStatusOf,
  loadGrpc,
} from "./grpc-service.js";
import { type Listener, type ListenSettings, requireCertificate } from "./listen.js";

/** With `fetch`, whose own limit is not known. */
const usualMessageBytes = 16 * 1_048_576;

/** No connection is older than this, plus the time in which its calls may end: its senders connect anew. */
const connectionMs = 300_000;
const graceMs = 60_000;

const serverOptions = {
  "grpc.max_concurrent_streams": 256, // of one connection
  "grpc-node.max_session_memory": 64, // MB: of responses that are not read
  "grpc.max_connection_age_ms": connectionMs,
  "grpc.max_connection_age_grace_ms": graceMs,
} as const;

/** A gRPC server. Each message becomes the body that the receiver would get by HTTP, so one receiver serves both. */
export async function listenGrpc(settings: ListenSettings): Promise<Listener> {
  const { isSecure, authority, path } = grpcTarget(settings.address);
  const service = await loadGrpc();
  const { grpc, method } = service;
  const maxBytes = settings.receiver?.maxBodyBytes ?? usualMessageBytes;
  const unread = new UnreadCalls(service, maxBytes, () => void tooLarge(settings, maxBytes));
  const server = new grpc.Server({
    ...serverOptions,
    "grpc.max_receive_message_length": maxBytes,
    interceptors: [unread.interceptor],
  });
  const requestDeserialize = (bytes: Buffer) =>
    attempt(() => method.requestDeserialize(bytes)) ?? "malformed"; // grpc-js takes undefined for no message at all
  server.addService(
    { Receive: { ...method, path, requestDeserialize } },
    { Receive: receiving(settings, service) },
  );
  // The sockets are ours, because grpc-js cannot end one connection, which is what frees the memory of its calls.
  const injector = server.createConnectionInjector(credentials(settings, service, isSecure));
  const tcp = createServer((socket) => {
    unread.opened(socket);
    injector.injectConnection(socket);
  });
  const at = authority.lastIndexOf(":");
  const host = authority.slice(0, at);
  await listening(tcp, { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(authority.slice(at + 1)) });
  const { port } = tcp.address() as AddressInfo;
  return {
    address: `${isSecure ? "grpcs" : "grpc"}://${host}:${port}${path}`,
    close: () =>
      new Promise((resolve) => {
        const late = setTimeout(() => {
          server.forceShutdown();
          unread.destroy();
        }, settings.stopMs);
        tcp.close(() => {
          clearTimeout(late);
          unread.destroy();
          resolve();
        });
        server.tryShutdown(() => {}); // lets running calls end
      }),
  };
}

function credentials(
  settings: ListenSettings,
  { grpc: { ServerCredentials } }: GrpcService,
  isSecure: boolean,
): ServerCredentials {
  if (!isSecure) return ServerCredentials.createInsecure();
  const { ca, cert, key } = requireCertificate(settings);
  const pem = (content: string | Buffer): Buffer => Buffer.from(content as string);
  const pair = { private_key: pem(key), cert_chain: pem(cert) };
  return ServerCredentials.createSsl(ca === undefined ? null : pem(ca), [pair], ca !== undefined);
}

/** All messages that are read at the same time, before their signatures are verified: as of a receiver by HTTP. */
const unverifiedBytes = 64 * 1_048_576;
const maxUnread = 1_000;
const bodyMs = 30_000;
const checkMs = 50;
/** Time for the status to reach a sender before its connection is closed. */
const lingerMs = 100;

interface Connection {
  readonly socket: Socket;
  /** In the order of their beginning, each with what the connection had received by then. */
  readonly unread: Map<UnreadCall, number>;
}

interface UnreadCall {
  end(httpStatus: number): void;
}

/**
 * Bounds the memory that senders can take who prove nothing. grpc-js keeps what has come of every message until the whole
 * message is there or its connection ends, even after the call has been refused. So the connection of a call that stalls,
 * or that takes too much, is closed.
 */
class UnreadCalls {
  readonly interceptor: ServerInterceptor;
  readonly #connections = new Map<string, Connection>();
  #checking: NodeJS.Timeout | undefined;

  constructor(
    private readonly service: GrpcService,
    private readonly maxBytes: number,
    private readonly reportTooLarge: () => void,
  ) {
    const { ServerInterceptingCall, ServerListenerBuilder, ResponderBuilder } = service.grpc;
    this.interceptor = (_, call) => {
      const leave = this.#enter(call);
      const listener = new ServerListenerBuilder()
        // Not with the message: a second one may follow it.
        .withOnReceiveHalfClose((next) => {
          leave();
          next();
        })
        .withOnCancel(leave)
        .build();
      const responder = new ResponderBuilder().withStart((next) => next(listener)).build();
      return new ServerInterceptingCall(call, responder);
    };
  }

  opened(socket: Socket): void {
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    this.#connections.set(peer, { socket, unread: new Map() });
    socket.on("error", () => {}); // the sender has gone
    socket.once("close", () => this.#connections.delete(peer));
  }

  destroy(): void {
    clearInterval(this.#checking);
    this.#checking = undefined;
    for (const { socket } of this.#connections.values()) socket.destroy();
  }

  /** Returns what to call when the message has come as a whole, or its sender has gone. */
  #enter(call: ServerInterceptingCallInterface): () => void {
    const connection = this.#connections.get(call.getPeer());
    if (connection === undefined) return () => {}; // it has gone
    const leave = (): boolean => {
      clearTimeout(timer);
      return connection.unread.delete(entry);
    };
    // grpc-js ends a call that is too large by itself, through this method, and without the trailer of the protocol.
    const sendStatus = call.sendStatus.bind(call);
    call.sendStatus = (status) => {
      if (!leave()) return sendStatus(status);
      const isTooLarge = status.code === this.service.grpc.status.RESOURCE_EXHAUSTED && !status.metadata;
      if (isTooLarge) this.reportTooLarge();
      sendStatus(isTooLarge ? refusal(413, this.service) : status);
      // Of one that is too large by its declared length nothing is kept; its connection serves the next message.
      const holdsNothing = isTooLarge && /^Received message larger than max/.test(status.details ?? "");
      if (!holdsNothing) setTimeout(() => connection.socket.destroy(), lingerMs);
    };
    const entry: UnreadCall = { end: (status) => call.sendStatus(refusal(status, this.service)) };
    const timer = setTimeout(() => entry.end(408), bodyMs);
    connection.unread.set(entry, connection.socket.bytesRead);
    this.#check();
    return leave;
  }

  #check(): void {
    const busy = [...this.#connections.values()].filter(({ unread }) => unread.size > 0);
    if (busy.length === 0) {
      clearInterval(this.#checking);
      this.#checking = undefined;
      return;
    }
    this.#checking ??= setInterval(() => this.#check(), checkMs).unref();
    const count = busy.reduce((sum, { unread }) => sum + unread.size, 0);
    const bytes = busy.map((one) => this.#bytesOf(one));
    const total = bytes.reduce((sum, one) => sum + one, 0);
    if (count <= maxUnread && total <= Math.max(unverifiedBytes, this.maxBytes)) return;
    const largest = busy[bytes.indexOf(Math.max(...bytes))]!;
    for (const call of [...largest.unread.keys()]) call.end(503);
    this.#check();
  }

  /** What a connection's unread messages may take: no more than has come since the first of them began. */
  #bytesOf({ socket, unread }: Connection): number {
    const [first = 0] = unread.values();
    return Math.min(socket.bytesRead - first, unread.size * this.maxBytes);
  }
}

/** The receiver refuses it by its length, and reports it. */
const tooLarge = async ({ receiver }: ListenSettings, maxBytes: number): Promise<unknown> =>
  receiver?.handle({
    method: "POST",
    headers: { get: (name) => (name === "content-length" ? String(maxBytes + 1) : null) },
    body: null,
  });

function receiving(
  settings: ListenSettings,
  service: GrpcService,
): handleUnaryCall<GrpcMessage | "malformed", GrpcAcknowledgement> {
  return async (call, answer) => {
    const gone = new AbortController();
    call.on("cancelled", () => gone.abort());
    try {
      const response = await posted(settings, call.request, gone.signal);
      const acknowledgement = acknowledgementOf(response);
      answer(acknowledgement === undefined ? refusal(response.status, service) : null, acknowledgement);
    } catch (error) {
      if (!gone.signal.aborted) settings.logger.error("receiving failed", { error: safeReason(error) });
      answer(refusal(500, service));
    }
  };
}

function refusal(httpStatus: number, { grpc }: GrpcService) {
  const metadata = new grpc.Metadata();
  metadata.set("rf-status", String(httpStatus));
  const code = grpc.status[httpStatus === 503 ? "RESOURCE_EXHAUSTED" : grpcStatusOf(httpStatus)];
  return { code, details: `status ${httpStatus}`, metadata };
}

async function posted(
  { receiver, fetch, path }: ListenSettings,
  message: GrpcMessage | "malformed",
  signal: AbortSignal,
): Promise<PlainResponse> {
  const body = message === "malformed" ? undefined : bodyOf(message);
  if (body === undefined) return { status: 400 };
  const method = "POST";
  // The metadata of the call is not read: all that counts is in the message.
  const headers = { get: () => null };
  if (receiver !== undefined) return receiver.handle({ method, headers, body: Buffer.from(body) });
  const request = { method, body, headers: { "content-type": "application/json" }, signal };
  const response = await fetch(new Request(`http://grpc${path}`, request));
  return { status: response.status, body: await response.text() };
}

/** Undefined where the payload is not JSON: inside the body such a text could become other members. */
function bodyOf({ payload, correlationId, messageType, ...fields }: GrpcMessage): string | undefined {
  if (attempt(() => JSON.parse(payload) as unknown) === undefined) return undefined;
  return serialiseEnvelope({
    ...fields,
    correlationId: correlationId === "" ? null : correlationId,
    messageType: messageType as MessageType, // which the receiver checks, as all members
    payloadText: payload,
  });
}

/** What a 200 or a 500 of a receiver says. Undefined for every other response. */
function acknowledgementOf({ status, body = "" }: PlainResponse): GrpcAcknowledgement | undefined {
  if (status !== 200 && status !== 500) return undefined;
  const { acknowledged, duplicateDetected, payload, error, permanent } = JSON.parse(body) as Record<
    string,
    unknown
  >;
  return {
    acknowledged: acknowledged === true,
    duplicateDetected: duplicateDetected === true,
    payload: JSON.stringify(payload) ?? "",
    error: typeof error === "string" ? error : "",
    permanent: permanent === true,
  };
}
