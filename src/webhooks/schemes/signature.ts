import { createHash, timingSafeEqual } from "node:crypto";
import type { Delivery } from "../delivery.js";
import type { IncomingHeaders } from "../http.js";
import { isChallenge } from "./challenge.js";
import { decodeExactly } from "./decode-exactly.js";
import type { HeaderPart, SignatureRule } from "./scheme.js";
import type { SigningKey } from "./signing-key.js";
import { fill, type TemplatePart } from "./template.js";

/** Why a delivery is not believed: for the log, never for the sender. */
export type Refusal =
  | "signature missing"
  | "signature malformed"
  | "signature wrong"
  | "signed like a challenge"
  | "timestamp missing"
  | "timestamp too old"
  | "timestamp too new"
  | "signed header missing"
  | "body not signed"
  | "token missing"
  | "token wrong";

export interface SignatureCheck {
  readonly rule: SignatureRule;
  /** The alternatives of what is signed. */
  readonly signed: readonly (readonly TemplatePart[])[];
  /** Whether strangers are told the HMAC of what `isChallenge`. */
  readonly signsChallenges: boolean;
  readonly toleranceMs: number;
  readonly nowMs: number;
}

/** No provider sends more, and each costs work before anybody is believed. */
const maxHeaderLength = 8_192;
const maxSignatures = 10;
const maxFields = 1_000;

/** undefined when one of the keys signed the delivery, and in time. */
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
      .slice(0, maxSignatures)
      .flatMap((entry) => decodeExactly(entry, rule.encoding ?? "hex") ?? []);
    if (signatures.length === 0) continue;
    found = true;
    if (contents.some((content) => key.verify(content, signatures))) return undefined;
  }
  return found ? "signature wrong" : "signature malformed";
}

/** The entries of a header's list that have the prefix, without it. */
export function entriesOf(header: string, { separator, prefix = "" }: Omit<HeaderPart, "header">): string[] {
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

/** Two different times in one delivery are none. A scheme without a timestamp has always the right one. */
function readTimestamp(headers: IncomingHeaders, rule: SignatureRule["timestamp"]): Timestamp | undefined {
  if (rule === undefined) return { text: "", ms: Number.NaN };
  const header = headers.get(rule.header);
  if (header === null || header.length > maxHeaderLength) return undefined;
  const found = new Set(entriesOf(header, rule));
  const [text = ""] = found;
  if (found.size !== 1 || !/^\d{1,15}$/.test(text)) return undefined;
  return { text, ms: Number(text) * (rule.unit === "ms" ? 1 : 1_000) };
}

/** What may have been signed: the bytes of each alternative. */
function signedContents(
  delivery: Delivery,
  { rule, signed }: Pick<SignatureCheck, "rule" | "signed">,
  timestamp: string,
): readonly Uint8Array[] | Refusal {
  const digest = rule.bodyDigestQuery === undefined ? null : delivery.query.get(rule.bodyDigestQuery);
  if (digest !== null && !isDigestOf(delivery.body, digest)) return "signature wrong";
  const contents: Uint8Array[] = [];
  for (const parts of signed) {
    const needsForm = digest === null && parts.some((part) => part.place === "sortedForm");
    const form = needsForm ? sortedForm(delivery) : "";
    if (form === undefined) return "body not signed";
    for (const url of urlsOf(delivery, parts)) {
      const content = signedBytes(parts, delivery, { timestamp, url, sortedForm: form });
      if (content === undefined) return "signed header missing";
      contents.push(content);
    }
  }
  return contents;
}

/** What is filled in beside what the delivery itself has. */
export interface SignedValues {
  readonly timestamp: string;
  readonly url: string;
  readonly sortedForm: string;
}

export function signedBytes(
  parts: readonly TemplatePart[],
  delivery: Delivery,
  values: SignedValues,
): Uint8Array | undefined {
  const pieces: Uint8Array[] = [];
  for (const part of parts) {
    const { place } = part;
    if (place === "body") pieces.push(delivery.body);
    else {
      const given = place === "timestamp" || place === "url" || place === "sortedForm";
      const text = given ? values[place] : fill([part], delivery);
      if (text === undefined) return undefined;
      pieces.push(Buffer.from(text));
    }
  }
  return Buffer.concat(pieces);
}

/** Every field and its values in order, without anything between them; undefined when a body is no form, or an absurdly long one. */
export function sortedForm(delivery: Delivery): string | undefined {
  if (delivery.body.length === 0) return "";
  if (hasManyFields(delivery.body)) return undefined;
  const form = delivery.form();
  if (form === undefined) return undefined;
  const names = [...new Set(form.keys())].sort();
  return names
    .flatMap((name) => [...new Set(form.getAll(name))].sort().map((value) => name + value))
    .join("");
}

/** Told before it is taken apart: taking each field's values takes time by the square of their number. */
function hasManyFields(body: Uint8Array): boolean {
  let at = -1;
  for (let fields = 1; fields <= maxFields; fields++) {
    at = body.indexOf(0x26, at + 1); // &
    if (at < 0) return false;
  }
  return true;
}

/** With and without the standard port: providers do not agree on whether it is part of what they called. */
function urlsOf(delivery: Delivery, parts: readonly TemplatePart[]): readonly string[] {
  if (!parts.some((part) => part.place === "url")) return [delivery.url];
  const [, start = "", host = "", port, rest = ""] =
    /^(https?:\/\/)([^/?#]*?)(:\d+)?([/?#].*)?$/.exec(delivery.url) ?? [];
  if (start === "") return [delivery.url];
  const standard = start === "https://" ? ":443" : ":80";
  return port === undefined
    ? [delivery.url, `${start}${host}${standard}${rest}`]
    : [delivery.url, `${start}${host}${rest}`];
}

function isDigestOf(body: Uint8Array, digest: string): boolean {
  const given = decodeExactly(digest, "hex");
  const real = createHash("sha256").update(body).digest();
  return given !== undefined && given.length === real.length && timingSafeEqual(given, real);
}
