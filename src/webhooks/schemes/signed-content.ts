import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { isSameDigest } from "../../base/secrets.js";
import { type Delivery, hasMoreFields } from "./delivery.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { SignatureRule } from "./scheme.js";
import { decodeExactly } from "./signing-key.js";
import {
  type Alternatives,
  fill,
  firstHeader,
  type OwnValues,
  type ParsedTemplate,
  type Placeholder,
} from "./template.js";
import type { Refusal } from "./verifier.js";

export interface ContentRule {
  readonly rule: SignatureRule;
  /** The alternative templates of the signed content. */
  readonly signed: Alternatives;
}

/** So many bytes are hashed before a request is believed, beside those of the first two contents. */
export const maxTriedBytes = 8 * 1_048_576;

/** Returns the bytes of each alternative that the provider may have signed. */
export function signedContents(
  delivery: Delivery,
  { rule, signed }: ContentRule,
  { timestamp, secret }: Pick<SignedValues, "timestamp" | "secret">,
): readonly Uint8Array[] | Refusal {
  const digest = digestIn(delivery, rule.bodyDigestQuery);
  if (digest !== null && !isDigestOf(delivery.body, digest)) return "signature wrong";
  const contents: Uint8Array[] = [];
  for (const parts of signed) {
    const needsForm = digest === null && parts.some((part) => part.placeholder === "sortedForm");
    const fields = needsForm ? sortedForm(delivery) : "";
    if (fields === undefined) return "body not signed";
    const form = Buffer.from(fields);
    if (isAmbiguous(parts, delivery)) return "signed header ambiguous";
    for (const url of calledUrls(delivery, parts)) {
      const content = signedBytes(parts, delivery, { timestamp, url, sortedForm: form, secret });
      if (content === undefined) break;
      if (contents.length < 2 || sizeOf(contents) < maxTriedBytes) contents.push(content);
    }
    // in the body only the first counts: it may have a field that another alternative leaves unsigned
    if (contents.length > 0 && rule.signatureIn !== undefined) break;
  }
  return contents.length > 0 ? contents : "signed header missing";
}

/** Values that a delivery itself does not have. */
interface SignedValues {
  readonly timestamp: string;
  readonly url: string;
  readonly sortedForm: Uint8Array;
  readonly secret?: string | undefined;
}

/** Returns the bytes that are signed, or undefined when the delivery lacks a value that is part of them. */
function signedBytes(
  parts: ParsedTemplate,
  delivery: Delivery,
  values: SignedValues,
): Uint8Array | undefined {
  const own: OwnValues = {
    timestamp: () => values.timestamp,
    url: () => values.url,
    decodedUrl: () => values.url,
    secret: () => values.secret,
    crc32: () => String(crc32(delivery.body)),
  };
  const pieces: Uint8Array[] = [];
  for (const part of parts) {
    if (part.placeholder === "body") pieces.push(delivery.body);
    else if (part.placeholder === "sortedForm") pieces.push(values.sortedForm);
    else {
      const text = fill([part], delivery, own);
      if (text === undefined) return undefined;
      pieces.push(Buffer.from(text));
    }
  }
  return Buffer.concat(pieces);
}

export const sizeOf = (contents: readonly Uint8Array[]): number =>
  contents.reduce((sum, { byteLength }) => sum + byteLength, 0);

/**
 * With a signed `id.timestamp.body`, the id `a.1` and the timestamp `2` are signed like the id `a` and a timestamp that
 * begins with 1. So a header may not hold the text that ends it. Nor may a value of the body, where that text is longer
 * than a single sign, which the value of an honest provider may have. Where a line is a value, no value but the first has a
 * line break: another alternative could read it as the name of a further value.
 */
function isAmbiguous(parts: ParsedTemplate, delivery: Delivery): boolean {
  const first = parts.find((part) => part.placeholder !== undefined);
  return parts.some((part, index) => {
    const next = parts[index + 1];
    if (next === undefined || next.placeholder !== undefined) return false;
    if (part.placeholder === "header")
      return firstHeader(delivery.headers, part.text)?.includes(next.text) ?? false;
    if (!["json", "item", "form"].includes(part.placeholder ?? "")) return false;
    const value = fill([part], delivery) ?? "";
    if (next.text.startsWith("\n") && part !== first && value.includes("\n")) return true;
    return next.text.length > 1 && value.includes(next.text);
  });
}

/**
 * Null without one. The provider adds it at the end of the URL. Elsewhere, or twice, it is none: whoever has a copy of a signed
 * form could move the form's text into the URL, where a value that a stranger wrote would name the digest of another body.
 */
function digestIn(delivery: Delivery, name: string | undefined): string | null {
  if (name === undefined) return null;
  const query = delivery.query();
  if (!query.has(name)) return null;
  const [last, value] = [...query].at(-1)!;
  return last === name && query.getAll(name).length === 1 ? value : "";
}

function isDigestOf(body: Uint8Array, digest: string): boolean {
  const given = decodeExactly(digest, "hex");
  const real = createHash("sha256").update(body).digest();
  return given !== undefined && isSameDigest(given, real);
}

/**
 * Returns the URLs that the provider may have signed, the one that was received first. A gateway or a `Request` may have
 * written an apostrophe as %27 since then, and providers do not agree on whether the standard port is part of the URL.
 */
function calledUrls({ url }: Delivery, parts: ParsedTemplate): readonly string[] {
  const has = (name: Placeholder) => parts.some((part) => part.placeholder === name);
  const isDecoded = has("decodedUrl");
  if (!isDecoded && !has("url")) return [url];
  const spellings = [url, ...(URL.canParse(url) ? [new URL(url).href] : []), url.replaceAll("%27", "'")];
  const all = isDecoded ? [...spellings.map(decodedUrl), ...spellings] : spellings;
  return [...new Set(all.flatMap((one) => [one, withOtherPort(one)]))];
}

/** The signs that HubSpot writes without an escape before it signs: `: / ? @ ! $ ' ( ) * , ;`. All others stay escaped. */
const decodedUrl = (url: string): string =>
  url.replace(/%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi, (escaped) =>
    String.fromCharCode(Number.parseInt(escaped.slice(1), 16)),
  );

/** With the standard port where it is not written, and without it where it is. */
function withOtherPort(url: string): string {
  const [, start = "", host = "", port, rest = ""] =
    /^(https?:\/\/)([^/?#]*?)(:\d+)?([/?#].*)?$/.exec(url) ?? [];
  if (start === "") return url;
  const standard = start === "https://" ? ":443" : ":80";
  return port === undefined ? `${start}${host}${standard}${rest}` : `${start}${host}${rest}`;
}

/** No provider sends more fields, and a form is sorted before its signature is verified. */
const maxFields = 1_000;
/** Forms of many fields have a few kilobytes. A longer one is not parsed before it is believed. */
const maxFormBytes = 256 * 1_024;
/** A batch in one field (Mandrill) may be as long as the source allows: to parse it costs little more than to hash it. */
const fewFields = 10;

/**
 * Returns every field name with its values, sorted and without separators. Returns undefined when the body is not a form
 * or has too many fields.
 */
export function sortedForm(delivery: Delivery): string | undefined {
  const { body } = delivery;
  if (body.length === 0) return "";
  if (hasMoreFields(body, body.length > maxFormBytes ? fewFields : maxFields)) return undefined;
  const form = delivery.form();
  if (form === undefined) return undefined;
  const names = [...new Set(form.keys())].sort();
  return names
    .flatMap((name) => [...new Set(form.getAll(name))].sort().map((value) => name + value))
    .join("");
}

/**
 * Whether the proof of a delivery covers all values of a template. A token proves all or nothing, and so does a JSON web
 * token without a hash of the body.
 */
export function coveredByProof(
  { scheme, proof }: Pick<CheckedScheme, "scheme" | "proof">,
  template: ParsedTemplate,
): boolean {
  const { verify } = scheme;
  if (verify.kind === "token" || (verify.kind === "jwt" && verify.bodyHash === undefined)) return true;
  const hasBody = verify.kind === "jwt";
  const covers = (placeholder: Placeholder, name?: string) =>
    verify.kind === "signature" &&
    proof.every((parts) =>
      parts.some((part) => part.placeholder === placeholder && (name === undefined || part.text === name)),
    );
  // a checksum covers nothing: a body with the same one is easily made
  const coversBody = hasBody || covers("body") || covers("sortedForm");
  return template.every(({ placeholder, text }) => {
    switch (placeholder) {
      case "header":
        return covers("header", text);
      case "query":
        return covers("query", text) || covers("url");
      case "json":
      case "form":
      case "item":
        return coversBody || covers(placeholder, text);
      default: // literal text, or a value that does not come from the request
        return true;
    }
  });
}
