import type { Client, ServiceError } from "@grpc/grpc-js";
import { loadPackage, requirePackage, rethrow } from "../../base/require-package.js";
import type { Envelope } from "../envelope.js";
import { type GrpcTarget, grpcSchemes, grpcTarget } from "./address.js";
import {
  type AcknowledgementFields,
  decodeAcknowledgement,
  encodeMessage,
  fieldsOfBody,
} from "./grpc-messages.js";
import {
  checkedResponse,
  checkedTransportOptions,
  type MessageBody,
  malformedAcknowledgement,
  openCalls,
  refusalOf,
  type TlsMaterial,
  type Transport,
  TransportError,
  type TransportOptions,
  type TransportResponse,
} from "./transport.js";

export type GrpcTransportOptions = TransportOptions;

/**
 * Sends messages by gRPC: `grpc://host:port/RFReceiver/Receive`, and `grpcs:` with TLS. It needs the package
 * `@grpc/grpc-js`, looks for it when a destination is checked, and loads it with the first message. All messages to one host share a connection.
 */
export function grpcTransport(body: MessageBody, options: GrpcTransportOptions = {}): Transport {
  const { timeoutMs, maxResponseBytes, tls } = checkedTransportOptions(options, [], "grpcTransport");
  const clients = new Map<string, Client>();
  const calls = openCalls(timeoutMs);

  async function clientFor({ isSecure, authority }: GrpcTarget): Promise<Client> {
    const grpc = await loadGrpc();
    const key = `${isSecure ? "grpcs" : "grpc"}://${authority}`;
    const known = clients.get(key);
    if (known !== undefined) return known;
    const credentials = isSecure ? secure(grpc, tls) : grpc.credentials.createInsecure();
    const client = new grpc.Client(authority, credentials, channelOptions(maxResponseBytes));
    clients.set(key, client);
    return client;
  }

  return {
    schemes: grpcSchemes,
    check(address) {
      grpcTarget(address);
      requirePackage(grpcPackage, "A destination with a gRPC address");
    },
    async send(message, destination, { signal: outer }) {
      const target = grpcTarget(destination.address);
      const receiver = `${destination.serviceId} at ${target.shown}`;
      return calls.run(receiver, outer, async (signal) => {
        const client = await clientFor(target);
        signal.throwIfAborted();
        const request = encodeMessage(fieldsOfBody(body(message, destination)));
        try {
          return responseOf(await unary(client, target.path, request, signal), receiver, message);
        } catch (error) {
          return refusedResponse(error, receiver);
        }
      });
    },
    async close() {
      await calls.close();
      for (const client of clients.values()) client.close();
      clients.clear();
    },
  };
}

type Grpc = Awaited<ReturnType<typeof loadGrpc>>;

const asBuffer = (content: string | Buffer | undefined): Buffer | null =>
  content === undefined ? null : Buffer.from(content as string);

const secure = (grpc: Grpc, { ca, cert, key }: TlsMaterial = {}) =>
  grpc.credentials.createSsl(asBuffer(ca), asBuffer(key), asBuffer(cert));

const channelOptions = (maxResponseBytes: number) => ({
  "grpc.max_receive_message_length": maxResponseBytes,
  "grpc.enable_retries": 0, // the outbox retries
  "grpc.enable_http_proxy": 0, // as the HTTP transport
  "grpc.use_local_subchannel_pool": 1, // so that close ends the connection
  // A receiver that comes back is found within a second, not after the two minutes that are gRPC's limit.
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
});

const unary = (
  client: Client,
  path: string,
  request: Buffer,
  signal: AbortSignal,
): Promise<AcknowledgementFields> =>
  new Promise((resolve, reject) => {
    const same = (bytes: Buffer): Buffer => bytes;
    const call = client.makeUnaryRequest(path, same, decodeAcknowledgement, request, (error, reply) => {
      signal.removeEventListener("abort", cancel);
      if (error === null && reply !== undefined) resolve(reply);
      else reject(error);
    });
    const cancel = (): void => call.cancel();
    signal.addEventListener("abort", cancel, { once: true });
  });

function responseOf(reply: AcknowledgementFields, receiver: string, message: Envelope): TransportResponse {
  if (reply.payload === "") return checkedResponse({ ...reply, payload: undefined }, receiver, message);
  let payload: unknown;
  try {
    payload = JSON.parse(reply.payload);
  } catch {
    throw malformedAcknowledgement(receiver);
  }
  return checkedResponse({ ...reply, payload }, receiver, message);
}

/** The response for a status that refuses the message. Throws for every other status, and the message is sent again. */
function refusedResponse(error: unknown, receiver: string): TransportResponse {
  if (error instanceof TransportError) throw error;
  const { code, metadata } = error as Partial<ServiceError>;
  const status = httpStatusOf(code, metadata?.get("rf-status").join());
  const refusal = status === undefined ? undefined : refusalOf(status, receiver);
  if (refusal !== undefined) return refusal;
  throw new TransportError(`${receiver} could not be reached, or failed: gRPC status ${statusName(code)}.`);
}

const grpcPackage = "@grpc/grpc-js";

/** Loads `@grpc/grpc-js` at its first use. */
const loadGrpc = (): Promise<typeof import("@grpc/grpc-js")> =>
  loadPackage(grpcPackage, () => import("@grpc/grpc-js").catch(rethrow), "gRPC");

/** The statuses of gRPC by their numbers. `@grpc/grpc-js` has them, too, but is loaded only when it is used. */
const statusNames = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

const statusName = (code: number | undefined): string => statusNames[code ?? 2] ?? "UNKNOWN";

export const unimplemented = statusNames.indexOf("UNIMPLEMENTED");

/** How a receiver by gRPC refuses a message, for each status that a receiver by HTTP refuses it with. */
const refusalCodes = new Map([
  [400, statusNames.indexOf("INVALID_ARGUMENT")],
  [401, statusNames.indexOf("UNAUTHENTICATED")],
  [413, statusNames.indexOf("RESOURCE_EXHAUSTED")],
]);

/** The status of gRPC for a status of HTTP. Any that does not refuse the message is INTERNAL. */
export const grpcStatusOf = (httpStatus: number): number =>
  refusalCodes.get(httpStatus) ?? statusNames.indexOf("INTERNAL");

/**
 * The status of HTTP that a status of gRPC stands for. RESOURCE_EXHAUSTED counts as "too large" only with the trailer
 * `rf-status: 413`: it is also the status of a receiver that has too much to do, and of a response that is too large.
 */
function httpStatusOf(code: number | undefined, trailer: string | undefined): number | undefined {
  const found = [...refusalCodes].find(([, refusal]) => refusal === code)?.[0];
  return found === 413 && trailer !== "413" ? undefined : found;
}
