import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { OpenBodies } from "../../base/open-bodies.js";
import type { PlainResponse } from "../../base/plain-http.js";
import { readBody } from "../../base/read-body.js";
import { safeReason } from "../../base/safe-reason.js";
import { framed, frameHeadBytes, knownEncodings, unframed } from "./grpc-frame.js";
import { decodeMessage, encodeAcknowledgement } from "./grpc-messages.js";
import { grpcStatusOf, unimplemented } from "./grpc-status.js";
import type { ListenSettings } from "./listen-settings.js";
import { bodyOfFields } from "./signed-fields.js";

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
