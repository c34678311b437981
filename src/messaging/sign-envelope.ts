import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../errors.js";
import { requireName } from "../queue/arguments.js";
import { decodeExactly, type SigningKey, toSigningKey } from "../webhooks/schemes/signing-key.js";
import { canonicalJson } from "./canonical-json.js";
import {
  type Envelope,
  fieldProblem,
  isProtocolHeader,
  protocolVersion,
  type SignedEnvelope,
} from "./envelope.js";

/** How an envelope is signed. */
export interface SignOptions {
  /** The id of the service that the message goes to. It is signed and not sent. */
  readonly destination: string;
  /** The first one signs. */
  readonly secrets: readonly string[];
  readonly now: Date;
}

/** Returns the body of a request. Refuses what a receiver would refuse as malformed. */
export const signEnvelope = (envelope: Envelope, options: SignOptions): string =>
  serialiseEnvelope(signedEnvelope(envelope, options));

/** As `signEnvelope`, for a transport that carries the fields apart. */
export function signedEnvelope(
  { payload, ...fields }: Envelope,
  { destination, secrets, now }: SignOptions,
): SignedEnvelope {
  requireName(destination, "destination");
  const taken = Object.keys(fields.headers).filter(isProtocolHeader);
  if (taken.length > 0) {
    throw new InvalidArgumentError(`The protocol sets the headers ${taken.join(", ")}. Leave them out.`);
  }
  const own = { "rf-version": protocolVersion, "rf-timestamp": now.toISOString(), "rf-hmac": "" };
  const headers = { ...own, ...fields.headers };
  const unsigned = { ...fields, payloadText: canonicalJson(payload), headers };
  const problem = fieldProblem(unsigned);
  if (problem !== undefined) {
    throw new InvalidArgumentError(`The message cannot be sent: ${problem}. See docs/messaging-protocol.md.`);
  }
  const hmac = signatureOf(signedBytes(unsigned, destination), secrets, destination);
  return { ...unsigned, headers: { ...headers, "rf-hmac": hmac } };
}

const minSecretBytes = 16;

/** Returns the key, or the problem of the secret, without quoting it. */
function toKey(secret: unknown): SigningKey | string {
  const key = toSigningKey({ kind: "signature", header: "rf-hmac", secretEncoding: "base64" }, secret);
  if (typeof key === "string") return `${key}; it must be the base64 text of ${minSecretBytes} or more bytes`;
  const length = Buffer.byteLength(secret as string, "base64");
  if (length >= minSecretBytes) return key;
  return `has ${length} bytes; ${minSecretBytes} or more are needed, for example from \`openssl rand -base64 32\``;
}

/** Returns the problems of the secrets that two services share. `name` says where they are. */
export function sharedSecretProblems(secrets: unknown, name: string): readonly string[] {
  if (!Array.isArray(secrets)) return [`${name} must be an array of secrets`];
  if (secrets.length === 0) return [`${name} is empty; give at least one secret`];
  return secrets.flatMap((secret: unknown, index) => {
    const key = toKey(secret);
    return typeof key === "string" ? [`${name}[${index}] ${key}`] : [];
  });
}

function keysOf(secrets: readonly string[], serviceId: string): readonly SigningKey[] {
  const keys = secrets.map(toKey).filter((key) => typeof key !== "string");
  if (keys.length > 0 && keys.length === secrets.length) return keys;
  const problems = sharedSecretProblems(secrets, `Service "${serviceId}": secrets`);
  throw new InvalidArgumentError(`${problems.join("; ")}.`);
}

/**
 * The bytes that are signed: each text after the number of its bytes, so that no two messages share them. The destination
 * is signed and not sent: a message cannot be replayed at another service.
 */
export function signedBytes(fields: SignedEnvelope, destination: string): Uint8Array {
  const { headers } = fields;
  const names = Object.keys(headers).filter((name) => !isProtocolHeader(name));
  const texts = [
    headers["rf-version"] ?? "",
    headers["rf-timestamp"] ?? "",
    destination,
    fields.sourceServiceId,
    fields.messageId,
    fields.correlationId ?? "",
    fields.messageType,
    fields.endpoint,
    createHash("sha256").update(fields.payloadText).digest("hex"),
    ...names.sort().flatMap((name) => [name, headers[name]!]),
  ];
  return Buffer.from(texts.map((text) => `${Buffer.byteLength(text)}:${text}`).join(""));
}

/** Returns the signature by the first of the secrets that are shared with a service. */
export function signatureOf(bytes: Uint8Array, secrets: readonly string[], serviceId: string): string {
  const [key] = keysOf(secrets, serviceId);
  return Buffer.from(key!.sign(bytes)).toString("base64");
}

/** Returns whether one of the secrets that are shared with a service signed the bytes. Compares in constant time. */
export function isSignature(
  hmac: string,
  bytes: Uint8Array,
  secrets: readonly string[],
  serviceId: string,
): boolean {
  const signature = decodeExactly(hmac, "base64");
  const keys = keysOf(secrets, serviceId);
  return signature !== undefined && keys.some((key) => key.verify(bytes, [signature]));
}

/** Returns the body in JSON. */
export function serialiseEnvelope({ payloadText, headers, ...fields }: SignedEnvelope): string {
  const { messageId, correlationId, sourceServiceId, messageType, endpoint } = fields;
  const head = JSON.stringify({ messageId, correlationId, sourceServiceId, messageType, endpoint });
  return `${head.slice(0, -1)},"payload":${payloadText},"headers":${JSON.stringify(headers)}}`;
}

/** A message id, a timestamp and a signature have these lengths, whatever they are. */
const sampleMessageId = "0".repeat(36);
const sampleHeaders = {
  "rf-version": protocolVersion,
  "rf-timestamp": new Date(0).toISOString(),
  "rf-hmac": "0".repeat(44),
};

/** Refuses a message whose body a receiver with the same limit would refuse, before it is stored. */
export function requireMessageSize(fields: Omit<SignedEnvelope, "messageId">, maxBodyBytes: number): void {
  const headers = { ...sampleHeaders, ...fields.headers };
  const rest = serialiseEnvelope({ ...fields, messageId: sampleMessageId, headers, payloadText: "" });
  const bytes = Buffer.byteLength(rest) + Buffer.byteLength(fields.payloadText);
  if (bytes <= maxBodyBytes) return;
  throw new InvalidArgumentError(
    `The message "${fields.endpoint}" has ${bytes} bytes with its headers; at most ${maxBodyBytes} are sent (maxBodyBytes).`,
  );
}
