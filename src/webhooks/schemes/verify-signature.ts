import { createHash } from "node:crypto";
import type { IncomingHeaders } from "../../base/read-body.js";
import { isSameDigest } from "../../base/same-digest.js";
import { isChallenge } from "./challenge.js";
import { decodeExactly } from "./decode-exactly.js";
import type { Delivery } from "./delivery.js";
import type { HeaderPart, SignatureRule } from "./scheme.js";
import { signedBytes, sortedForm } from "./signed-content.js";
import type { SigningKey } from "./signing-key.js";
import type { TemplatePart } from "./template.js";

/** Why a delivery is refused. It is logged and never sent to the caller. */
export type Refusal =
  | "signature missing"
  | "signature malformed"
  | "signature wrong"
  | "signed like a challenge"
  | "timestamp missing"
  | "timestamp too old"
  | "timestamp too new"
  | "signed header missing"
  | "signed header ambiguous"
  | "body not signed"
  | "tenant missing"
  | "tenant unknown"
  | "token missing"
  | "token wrong";

export interface SignatureCheck {
  readonly rule: SignatureRule;
  /** The alternative templates of the signed content. */
  readonly signed: readonly (readonly TemplatePart[])[];
  /** Whether the source answers challenges with an HMAC under the same key. */
  readonly signsChallenges: boolean;
  readonly toleranceMs: number;
  readonly nowMs: number;
}

/** No provider sends more, and each costs work before the signature is verified. */
const maxHeaderLength = 8_192;
const maxSignatures = 10;
/** Each Ed25519 signature that is tried hashes the whole content. So many bytes are hashed before a request is believed. */
const maxTriedBytes = 8 * 1_048_576;

/** Returns undefined when one of the keys signed the delivery and its timestamp is within the tolerance. */
export function refusalOf(
  delivery: Delivery,
  keys: readonly SigningKey[],
  check: SignatureCheck,
): Refusal | undefined {
  const { rule } = check;
  const header = delivery.headers.get(rule.header);
  if (!header) return "signature missing";
  if (header.length > maxHeaderLength) return "signature malformed";
  const time = readTimestamp(delivery.headers, rule.timestamp);
  if (time === undefined) return "timestamp missing";
  if (time.ms < check.nowMs - check.toleranceMs) return "timestamp too old";
  if (time.ms > check.nowMs + check.toleranceMs) return "timestamp too new";

  const contents = signedContents(delivery, check, time.text);
  if (typeof contents === "string") return contents;
  if (check.signsChallenges && contents.some(isChallenge)) return "signed like a challenge";
  let found = false;
  for (const key of keys) {
    const signatures = entriesOf(header, { ...rule, prefix: key.prefix })
      .slice(0, key.hashesPerSignature ? triedSignatures(contents, keys.length) : maxSignatures)
      .flatMap((entry) => decodeExactly(entry, rule.encoding ?? "hex") ?? []);
    if (signatures.length === 0) continue;
    found = true;
    if (contents.some((content) => key.verify(content, signatures))) return undefined;
  }
  return found ? "signature wrong" : "signature malformed";
}

function triedSignatures(contents: readonly Uint8Array[], keys: number): number {
  const bytes = keys * contents.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return Math.max(1, Math.min(maxSignatures, Math.floor(maxTriedBytes / Math.max(1, bytes))));
}

/** Returns the entries of a header's list that have the prefix, without the prefix. */
function entriesOf(header: string, { separator, prefix = "" }: Omit<HeaderPart, "header">): string[] {
  const entries = separator === undefined ? [header] : header.split(separator);
  return entries
    .map((entry) => entry.trim())
    .filter((entry) => entry.startsWith(prefix))
    .map((entry) => entry.slice(prefix.length));
}

interface Timestamp {
  readonly text: string;
  readonly ms: number;
}

/** Refuses a delivery with two different timestamps. NaN, for a scheme without a timestamp, is always within the tolerance. */
function readTimestamp(headers: IncomingHeaders, rule: SignatureRule["timestamp"]): Timestamp | undefined {
  if (rule === undefined) return { text: "", ms: Number.NaN };
  const header = headers.get(rule.header);
  if (header === null || header.length > maxHeaderLength) return undefined;
  const found = new Set(entriesOf(header, rule));
  const [text = ""] = found;
  if (found.size !== 1 || !/^\d{1,15}$/.test(text)) return undefined;
  return { text, ms: Number(text) * (rule.unit === "ms" ? 1 : 1_000) };
}

/** Returns the bytes of each alternative that the provider may have signed. */
function signedContents(
  delivery: Delivery,
  { rule, signed }: Pick<SignatureCheck, "rule" | "signed">,
  timestamp: string,
): readonly Uint8Array[] | Refusal {
  const digest = digestIn(delivery.query, rule.bodyDigestQuery);
  if (digest !== null && !isDigestOf(delivery.body, digest)) return "signature wrong";
  const contents: Uint8Array[] = [];
  for (const parts of signed) {
    const needsForm = digest === null && parts.some((part) => part.placeholder === "sortedForm");
    const form = needsForm ? sortedForm(delivery) : "";
    if (form === undefined) return "body not signed";
    for (const url of urlsOf(delivery, parts)) {
      if (isAmbiguous(parts, delivery)) return "signed header ambiguous";
      const content = signedBytes(parts, delivery, { timestamp, url, sortedForm: form });
      if (content === undefined) return "signed header missing";
      contents.push(content);
    }
  }
  return contents;
}

/**
 * With a signed `id.timestamp.body`, the id `a.1` and the timestamp `2` are signed like the id `a` and a timestamp that
 * begins with 1. So a header may not hold the text that ends it.
 */
const isAmbiguous = (parts: readonly TemplatePart[], delivery: Delivery): boolean =>
  parts.some(({ placeholder, text }, index) => {
    const next = parts[index + 1];
    if (placeholder !== "header" || next === undefined || next.placeholder !== undefined) return false;
    return delivery.headers.get(text)?.includes(next.text) ?? false;
  });

/** With and without the standard port: providers do not agree on whether it is part of the signed URL. */
function urlsOf(delivery: Delivery, parts: readonly TemplatePart[]): readonly string[] {
  if (!parts.some((part) => part.placeholder === "url")) return [delivery.url];
  const [, start = "", host = "", port, rest = ""] =
    /^(https?:\/\/)([^/?#]*?)(:\d+)?([/?#].*)?$/.exec(delivery.url) ?? [];
  if (start === "") return [delivery.url];
  const standard = start === "https://" ? ":443" : ":80";
  return port === undefined
    ? [delivery.url, `${start}${host}${standard}${rest}`]
    : [delivery.url, `${start}${host}${rest}`];
}

/**
 * Null without one. The provider adds it at the end of the URL. Elsewhere, or twice, it is none: whoever has a copy of a signed
 * form could move the form's text into the URL, where a value that a stranger wrote would name the digest of another body.
 */
function digestIn(query: URLSearchParams, name: string | undefined): string | null {
  if (name === undefined || !query.has(name)) return null;
  const [last, value] = [...query].at(-1)!;
  return last === name && query.getAll(name).length === 1 ? value : "";
}

function isDigestOf(body: Uint8Array, digest: string): boolean {
  const given = decodeExactly(digest, "hex");
  const real = createHash("sha256").update(body).digest();
  return given !== undefined && isSameDigest(given, real);
}
