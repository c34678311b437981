import { isChallenge } from "./challenge.js";
import { decodeExactly } from "./decode-exactly.js";
import type { Delivery } from "./delivery.js";
import { entriesOf, maxHeaderLength } from "./header-entries.js";
import { isInBody, readTimestamp, type Tolerance, timeRefusal } from "./read-timestamp.js";
import type { Refusal } from "./refusal.js";
import { type ContentRule, maxTriedBytes, signedContents, sizeOf } from "./signed-content.js";
import type { SigningKey } from "./signing-key.js";
import { fill, firstHeader, type TemplatePart } from "./template.js";

export interface SignatureCheck extends ContentRule, Tolerance {
  /** Where the body has the signature. */
  readonly signatureIn?: readonly TemplatePart[] | undefined;
  readonly sender?: readonly TemplatePart[] | undefined;
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
