import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../errors.js";
import { decodeExactly } from "../webhooks/schemes/decode-exactly.js";
import { type SigningKey, toSigningKey } from "../webhooks/schemes/signing-key.js";
import { type EnvelopeFields, isProtocolHeader } from "./envelope-fields.js";

const minSecretBytes = 16;

/** Returns the key, or what is wrong with the secret. The text never quotes it. */
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
export function signedBytes(fields: EnvelopeFields, destination: string): Uint8Array {
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
