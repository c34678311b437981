import type { ServerCredentials, ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import type { PlainResponse } from "../../base/plain-http.js";
import { safeReason } from "../../base/safe-reason.js";
import { decodeMessage, encodeAcknowledgement } from "./grpc-messages.js";
import { grpcStatusOf } from "./grpc-status.js";
import { grpcTarget } from "./grpc-target.js";
import { type Listener, type ListenSettings, requireCertificate } from "./listen-settings.js";
import { loadGrpc } from "./load-grpc.js";
import { bodyOfFields } from "./signed-fields.js";

/** Above what any receiver accepts by default. The receiver has the limit that counts, and says that it was exceeded. */
const usualMessageBytes = 16 * 1_024 * 1_024;

/**
 * gRPC has no limit for the time in which a message must come. So no connection is older than this: its senders connect
 * anew, and who sends nothing to its end is cut off.
 */
const limits = {
  "grpc.max_connection_age_ms": 300_000,
  "grpc.max_connection_age_grace_ms": 60_000,
  "grpc.max_concurrent_streams": 256, // of one connection
} as const;

type Grpc = Awaited<ReturnType<typeof loadGrpc>>;
type Reply = sendUnaryData<Buffer>;

/** A gRPC server. Each message becomes the body that the receiver would get by HTTP, so one receiver serves both. */
export async function listenGrpc(settings: ListenSettings): Promise<Listener> {
  const { isSecure, authority, path } = grpcTarget(settings.address);
  const grpc = await loadGrpc();
  const most = Math.max(usualMessageBytes, settings.receiver?.maxBodyBytes ?? 0);
  const server = new grpc.Server({ ...limits, "grpc.max_receive_message_length": most });
  const same = (bytes: Buffer): Buffer => bytes;
  const method = {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same, // decoded in the handler, which can say INVALID_ARGUMENT
    responseSerialize: same,
    responseDeserialize: same,
  } as const;
  server.addService(
    { receive: method },
    {
      receive: (call: ServerUnaryCall<Buffer, Buffer>, reply: Reply) =>
        void respond(grpc, settings, call, reply),
    },
  );
  const port = await bound(
    server,
    authority,
    isSecure ? secure(grpc, settings) : grpc.ServerCredentials.createInsecure(),
  );
  const host = authority.slice(0, authority.lastIndexOf(":"));
  return {
    address: `${isSecure ? "grpcs" : "grpc"}://${host}:${port}${path}`,
    close: () =>
      new Promise((resolve) => {
        const late = setTimeout(() => server.forceShutdown(), settings.stopMs);
        server.tryShutdown(() => {
          clearTimeout(late);
          resolve();
        });
      }),
  };
}

function secure(grpc: Grpc, settings: ListenSettings): ServerCredentials {
  const { ca, cert, key } = requireCertificate(settings);
  const pair = { cert_chain: Buffer.from(cert as string), private_key: Buffer.from(key as string) };
  const roots = ca === undefined ? null : Buffer.from(ca as string);
  return grpc.ServerCredentials.createSsl(roots, [pair], ca !== undefined);
}

const bound = (server: InstanceType<Grpc["Server"]>, authority: string, credentials: ServerCredentials) =>
  new Promise<number>((resolve, reject) => {
    server.bindAsync(authority, credentials, (error, port) =>
      error === null ? resolve(port) : reject(error),
    );
  });

async function respond(
  grpc: Grpc,
  settings: ListenSettings,
  call: ServerUnaryCall<Buffer, Buffer>,
  reply: Reply,
): Promise<void> {
  const gone = new AbortController();
  call.on("cancelled", () => gone.abort());
  const refuse = (status: number): void => {
    const metadata = new grpc.Metadata();
    metadata.set("rf-status", String(status));
    reply({ code: grpcStatusOf(status), details: `status ${status}`, metadata });
  };
  try {
    const response = await posted(settings, call.request, gone.signal);
    const acknowledgement = acknowledgementOf(response);
    if (acknowledgement === undefined) refuse(response.status);
    else reply(null, acknowledgement);
  } catch (error) {
    if (!gone.signal.aborted) settings.logger.error("receiving failed", { error: safeReason(error) });
    refuse(500);
  }
}

/** The metadata of a call is not read: all that counts is in the message. */
const noHeaders = { get: () => null };

async function posted(
  { receiver, fetch, path }: ListenSettings,
  message: Buffer,
  signal: AbortSignal,
): Promise<PlainResponse> {
  const method = "POST";
  const handle = (bytes: Buffer) => receiver!.handle({ method, headers: noHeaders, body: bytes });
  // One that is too large is not decoded: the receiver refuses it by its length.
  if (receiver !== undefined && message.byteLength > receiver.maxBodyBytes) return handle(message);
  const body = bodyOf(message);
  if (body === undefined) return { status: 400 };
  if (receiver !== undefined) return handle(Buffer.from(body));
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
