import type { SecretKeys } from "../../base/secrets.js";
import { type Delivery, provenEvents } from "./delivery.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { HeaderPart, SignatureRule, TimestampRule, TimestampUnit } from "./scheme.js";
import { type ContentRule, maxTriedBytes, signedContents, sizeOf } from "./signed-content.js";
import { decodeExactly, type SigningKey } from "./signing-key.js";
import { fill, firstHeader, type ParsedTemplate } from "./template.js";
import type { Refusal, Verifier, VerifierSettings, VerifyDelivery } from "./verifier.js";

/** Returns the keys that may have signed a delivery, whose events each have a signature. */
export type KeysOf = (
  delivery: Delivery,
  events: readonly Delivery[],
) => Promise<readonly SigningKey[] | Refusal>;

/** Verifies the signature of a delivery, or that of each of its items. */
export function createSignatureVerifier(
  checked: CheckedScheme,
  rule: SignatureRule,
  keysOf: KeysOf,
  { clock, pastMs, futureMs }: VerifierSettings,
): VerifyDelivery {
  const { proof, signatureIn, sender, handshakes } = checked;
  const signsChallenges = handshakes.some(({ hmac }) => hmac !== undefined);
  return async (delivery) => {
    const events = provenEvents(delivery, checked);
    if (typeof events === "string") return events;
    if (events.length === 0) return "signature missing"; // an empty list has no item that could prove it
    const time = { nowMs: clock().getTime(), pastMs, futureMs };
    const check = { rule, signed: proof, signatureIn, sender, signsChallenges, ...time };
    const malformed = rule.certificate && events.map((event) => formRefusal(event, check)).find(Boolean);
    if (malformed !== undefined) return malformed;
    const keys = await keysOf(delivery, events);
    if (typeof keys === "string") return keys;
    for (const event of events) {
      const refusal = refusalOf(event, keys, check);
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  };
}

interface SignatureCheck extends ContentRule, Tolerance {
  /** Where the body has the signature. */
  readonly signatureIn?: ParsedTemplate | undefined;
  readonly sender?: ParsedTemplate | undefined;
  /** Whether the source answers challenges with an HMAC under the same key. */
  readonly signsChallenges: boolean;
}

/** No provider sends more, and each costs work before the signature is verified. */
const maxSignatures = 10;

/** Returns undefined when one of the keys signed the delivery and its timestamp is within the tolerance. */
export function refusalOf(
  delivery: Delivery,
  keys: readonly SigningKey[],
  check: SignatureCheck,
): Refusal | undefined {
  const { timestamp } = check.rule;
  const signatures = signaturesOf(delivery, check);
  if (signatures.length === 0) return "signature missing";
  if (signatures.some((one) => one.length > maxHeaderLength)) return "signature malformed";
  const isEarly = timestamp !== undefined && !isInBody(timestamp);
  const time = isEarly ? readTimestamp(delivery, timestamp) : undefined;
  const late = isEarly ? timeRefusal(time, check) : undefined;
  if (late !== undefined) return late;
  const allowed = ofSender(delivery, keys, check);
  if (allowed.length === 0) return "sender unknown";
  const refusal = signatureRefusal(delivery, allowed, { ...check, signatures, time: time?.text ?? "" });
  // a time in the body is read when the body is believed
  if (refusal === undefined && isInBody(timestamp))
    return timeRefusal(readTimestamp(delivery, timestamp), check);
  return refusal;
}

/** What is wrong with a delivery whatever the key is: no certificate is fetched for it. */
function formRefusal(delivery: Delivery, check: SignatureCheck): Refusal | undefined {
  const { encoding = "hex" } = check.rule;
  const signatures = signaturesOf(delivery, check);
  if (signatures.length === 0) return "signature missing";
  const isSignature = (text: string) =>
    text.length <= maxHeaderLength &&
    entriesOf(text, check.rule).some((entry) => decodeExactly(entry, encoding) !== undefined);
  if (!signatures.some(isSignature)) return "signature malformed";
  const contents = signedContents(delivery, check, { timestamp: "0", secret: "0" });
  return typeof contents === "string" ? contents : undefined;
}

function signatureRefusal(
  delivery: Delivery,
  keys: readonly SigningKey[],
  check: SignatureCheck & { readonly signatures: readonly string[]; readonly time: string },
): Refusal | undefined {
  const { rule } = check;
  const contentsOf = (secret?: string) => signedContents(delivery, check, { timestamp: check.time, secret });
  let contents = contentsOf(keys[0]!.secret);
  let found = false;
  for (const [index, key] of keys.entries()) {
    if (index > 0 && key.secret !== undefined) contents = contentsOf(key.secret); // it may be a part of the content
    if (typeof contents === "string") return contents;
    if (check.signsChallenges && contents.some(isChallenge)) return "signed like a challenge";
    const tried = check.signatures
      .flatMap((text) => entriesOf(text, { ...rule, prefix: key.prefix }))
      .slice(0, key.hashesPerSignature ? triedSignatures(contents, keys.length) : maxSignatures)
      .flatMap((entry) => decodeExactly(entry, rule.encoding ?? "hex") ?? []);
    if (tried.length === 0) continue;
    found = true;
    if (contents.some((content) => key.verify(content, tried))) return undefined;
  }
  return found ? "signature wrong" : "signature malformed";
}

/** The texts that hold the signatures: of the header, of several, or of a field of the body. */
function signaturesOf(delivery: Delivery, { rule, signatureIn }: SignatureCheck): readonly string[] {
  const inBody = signatureIn && fill(signatureIn, delivery);
  const inHeaders = (rule.headers ?? []).map((name) => delivery.headers.get(name));
  const inHeader = rule.header === undefined ? null : firstHeader(delivery.headers, rule.header);
  return [inBody, ...inHeaders, inHeader].filter((text): text is string => Boolean(text));
}

/** The keys of the secret that is the sender's name. A provider's key signs for all its customers. */
function ofSender(
  delivery: Delivery,
  keys: readonly SigningKey[],
  { sender }: SignatureCheck,
): readonly SigningKey[] {
  if (sender === undefined) return keys;
  const name = fill(sender, delivery);
  return keys.filter(({ secret }) => secret !== undefined && secret === name);
}

function triedSignatures(contents: readonly Uint8Array[], keys: number): number {
  const bytes = Math.max(1, keys * sizeOf(contents));
  return Math.max(1, Math.min(maxSignatures, Math.floor(maxTriedBytes / bytes)));
}

/** No provider sends more, and each costs work before the signature is verified. */
const maxHeaderLength = 8_192;

/** Returns the entries of a header's list that have the prefix, without the prefix. */
function entriesOf(header: string, { separator, prefix = "" }: Partial<HeaderPart>): string[] {
  const found: string[] = [];
  for (const part of separator === undefined ? [header] : header.split(separator)) {
    const entry = part.trim();
    if (entry.startsWith(prefix)) found.push(entry.slice(prefix.length));
  }
  return found;
}

interface Timestamp {
  /** As the provider wrote it: the signed content has it so. */
  readonly text: string;
  readonly ms: number;
}

/** How far a timestamp may differ from the clock. */
interface Tolerance {
  readonly nowMs: number;
  readonly pastMs: number;
  readonly futureMs: number;
}

const isInBody = (rule: TimestampRule | undefined): rule is TimestampRule & { readonly json: string } =>
  rule !== undefined && "json" in rule;

/** Returns undefined for a delivery without a timestamp, and for one with two different ones. */
export function readTimestamp(delivery: Delivery, rule: TimestampRule): Timestamp | undefined {
  const text = isInBody(rule) ? delivery.json()?.value(rule.json) : onlyEntry(delivery, rule);
  const ms = text === undefined ? Number.NaN : parsedTime(text, rule.unit ?? "s");
  return text === undefined || Number.isNaN(ms) ? undefined : { text, ms };
}

function onlyEntry(delivery: Delivery, part: HeaderPart): string | undefined {
  const header = firstHeader(delivery.headers, part.header);
  if (header === null || header.length > maxHeaderLength) return undefined;
  const found = new Set(entriesOf(header, part));
  return found.size === 1 ? [...found][0] : undefined;
}

/** A date as in RFC 3339, with as many digits of a second as the provider likes. */
const isoDate = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

function parsedTime(text: string, unit: TimestampUnit): number {
  if (unit === "iso") return isoDate.test(text) ? Date.parse(text) : Number.NaN;
  return /^\d{1,15}$/.test(text) ? Number(text) * (unit === "ms" ? 1 : 1_000) : Number.NaN;
}

function timeRefusal(
  time: Timestamp | undefined,
  { nowMs, pastMs, futureMs }: Tolerance,
): Refusal | undefined {
  if (time === undefined) return "timestamp missing";
  if (time.ms < nowMs - pastMs) return "timestamp too old";
  if (time.ms > nowMs + futureMs) return "timestamp too new";
  return undefined;
}

/**
 * Answering a challenge with an HMAC signs unverified content under the key that signs events. So only content of this
 * form is signed, and `refusalOf` accepts no event of this form: an answer can then never serve as the signature of a
 * delivery, whatever the scheme signs. Providers' challenges are UUIDs, or random bytes in base64; their events are not.
 */
export const isChallenge = (content: string | Uint8Array): boolean =>
  content.length <= 256 && /^[\w.~+/=-]+$/.test(Buffer.from(content).toString("latin1"));

/** A verifier that can have its secrets at hand before there is a body to verify. */
export const withPrepare = (verify: VerifyDelivery, keys: SecretKeys<object>): Verifier =>
  Object.assign(verify, {
    async prepare() {
      await keys.get();
      return undefined;
    },
  });
