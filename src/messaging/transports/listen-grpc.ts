import type { ServerCredentials, ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import { safeReason } from "../../base/safe-reason.js";
import { decodeMessage, encodeAcknowledgement } from "./grpc-messages.js";
import { grpcStatusOf } from "./grpc-status.js";
import { grpcTarget } from "./grpc-target.js";
import { type Listener, type ListenSettings, requireCertificate } from "./listen-settings.js";
import { loadGrpc } from "./load-grpc.js";
import { bodyOfFields } from "./signed-fields.js";

/** Above what any receiver accepts by default; `fetch` has the limit that counts. */
const maxMessageBytes = 16 * 1_024 * 1_024;

type Grpc = Awaited<ReturnType<typeof loadGrpc>>;
type Reply = sendUnaryData<Buffer>;

/** A gRPC server. Each message becomes the request that `fetch` would get by HTTP, so one receiver serves both. */
export async function listenGrpc(settings: ListenSettings): Promise<Listener> {
  const { isSecure, authority, path } = grpcTarget(settings.address);
  const grpc = await loadGrpc();
  const server = new grpc.Server({ "grpc.max_receive_message_length": maxMessageBytes });
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
  { fetch, path, logger }: ListenSettings,
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
  const body = bodyOf(call.request);
  if (body === undefined) return refuse(400);
  try {
    const headers = { "content-type": "application/json" };
    const request = new Request(`http://grpc${path}`, { method: "POST", body, headers, signal: gone.signal });
    const response = await fetch(request);
    const acknowledgement = await acknowledgementOf(response);
    if (acknowledgement === undefined) refuse(response.status);
    else reply(null, acknowledgement);
  } catch (error) {
    if (!gone.signal.aborted) logger.error("receiving failed", { error: safeReason(error) });
    refuse(500);
  }
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
async function acknowledgementOf(response: Response): Promise<Buffer | undefined> {
  if (response.status !== 200 && response.status !== 500) return undefined;
  const { acknowledged, duplicateDetected, payload, error, permanent } = (await response.json()) as Record<
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
