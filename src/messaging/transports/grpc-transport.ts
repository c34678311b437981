import type { Client, ServiceError } from "@grpc/grpc-js";
import type { Envelope } from "../envelope.js";
import { attempt } from "../open-envelope.js";
import { type GrpcTarget, grpcSchemes, grpcTarget } from "./address.js";
import {
  type GrpcAcknowledgement,
  type GrpcMessage,
  type GrpcService,
  httpStatusOf,
  loadGrpc,
  requireGrpc,
} from "./grpc-service.js";
import {
  checkedResponse,
  checkedTransportOptions,
  malformedAcknowledgement,
  openCalls,
  refusalOf,
  signedFor,
  type Transport,
  TransportError,
  type TransportOptions,
  type TransportResponse,
} from "./transport.js";

/** Options of the transport by gRPC. */
export type GrpcTransportOptions = TransportOptions;

/**
 * Sends messages by gRPC: `grpc://host:port/RFReceiver/Receive`, and `grpcs:` with TLS. It needs the package
 * `@grpc/grpc-js`, looks for it when a destination is checked, and loads it with the first message. All messages to one
 * host share a connection.
 */
export function grpcTransport(options: GrpcTransportOptions = {}): Transport {
  const { timeoutMs, maxResponseBytes, tls } = checkedTransportOptions(options, [], "grpcTransport");
  const clients = new Map<string, Client>();
  const calls = openCalls(timeoutMs);

  function clientFor({ isSecure, authority }: GrpcTarget, grpc: Grpc): Client {
    const key = `${isSecure ? "grpcs" : "grpc"}://${authority}`;
    const open = clients.get(key);
    if (open !== undefined) return open;
    const credentials = isSecure
      ? grpc.credentials.createSsl(pem(tls?.ca), pem(tls?.key), pem(tls?.cert))
      : grpc.credentials.createInsecure();
    const client = new grpc.Client(authority, credentials, channelOptions(maxResponseBytes));
    clients.set(key, client);
    return client;
  }

  return {
    schemes: grpcSchemes,
    check(address) {
      grpcTarget(address);
      requireGrpc("A destination with a gRPC address");
    },
    async send(message, destination, { signal: outer }) {
      const target = grpcTarget(destination.address);
      const receiver = `${destination.serviceId} at ${target.shown}`;
      return calls.run(receiver, outer, async (signal) => {
        const { grpc, method } = await loadGrpc();
        signal.throwIfAborted();
        const client = clientFor(target, grpc);
        const { payloadText, correlationId, ...fields } = signedFor(message, destination);
        const request = { ...fields, correlationId: correlationId ?? "", payload: payloadText };
        try {
          const reply = await unary(client, { ...method, path: target.path }, request, signal);
          return responseOf(reply, receiver, message);
        } catch (error) {
          return refusedResponse(error, receiver, grpc);
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

type Grpc = GrpcService["grpc"];

const pem = (content: string | Buffer | undefined): Buffer | null =>
  content === undefined ? null : Buffer.from(content as string);

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
  { path, requestSerialize, responseDeserialize }: GrpcService["method"],
  message: GrpcMessage,
  signal: AbortSignal,
): Promise<GrpcAcknowledgement> =>
  new Promise((resolve, reject) => {
    const call = client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      message,
      (error, reply) => {
        signal.removeEventListener("abort", cancel);
        if (error === null && reply !== undefined) resolve(reply);
        else reject(error);
      },
    );
    const cancel = (): void => call.cancel();
    signal.addEventListener("abort", cancel, { once: true });
  });

function responseOf(reply: GrpcAcknowledgement, receiver: string, message: Envelope): TransportResponse {
  const payload = reply.payload === "" ? undefined : attempt(() => JSON.parse(reply.payload) as unknown);
  if (payload === undefined && reply.payload !== "") throw malformedAcknowledgement(receiver);
  return checkedResponse({ ...reply, payload }, receiver, message);
}

/** The response for a status that refuses the message. Throws for every other status, and the message is sent again. */
function refusedResponse(error: unknown, receiver: string, { status }: Grpc): TransportResponse {
  if (error instanceof TransportError) throw error;
  const { code, metadata } = error as Partial<ServiceError>;
  const name = status[code ?? status.UNKNOWN] ?? "UNKNOWN";
  const refused = httpStatusOf(name, metadata?.get("rf-status").join());
  const refusal = refused === undefined ? undefined : refusalOf(refused, receiver);
  if (refusal !== undefined) return refusal;
  throw new TransportError(`${receiver} could not be reached, or failed: gRPC status ${name}.`);
}
