import { createHash } from "node:crypto";
import { isSameDigest } from "../../base/same-digest.js";
import { calledUrls } from "./called-urls.js";
import { crc32 } from "./crc32.js";
import { decodeExactly } from "./decode-exactly.js";
import type { Delivery } from "./delivery.js";
import type { Refusal } from "./refusal.js";
import { sortedForm } from "./sorted-form.js";
import { fill, firstHeader, type OwnValues, type TemplatePart } from "./template.js";
import type { SignatureRule } from "./verify-rules.js";

/** Values that a delivery itself does not have. */
export interface SignedValues {
  readonly timestamp: string;
  readonly url: string;
  readonly sortedForm: string;
  readonly secret?: string | undefined;
}

/** Returns the bytes that are signed, or undefined when the delivery lacks a value that is part of them. */
export function signedBytes(
  parts: readonly TemplatePart[],
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
    else if (part.placeholder === "sortedForm") pieces.push(Buffer.from(values.sortedForm));
    else {
      const text = fill([part], delivery, own);
      if (text === undefined) return undefined;
      pieces.push(Buffer.from(text));
    }
  }
  return Buffer.concat(pieces);
}

export interface ContentRule {
  readonly rule: SignatureRule;
  /** The alternative templates of the signed content. */
  readonly signed: readonly (readonly TemplatePart[])[];
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
    const form = needsForm ? sortedForm(delivery) : "";
    if (form === undefined) return "body not signed";
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

export const sizeOf = (contents: readonly Uint8Array[]): number =>
  contents.reduce((sum, { byteLength }) => sum + byteLength, 0);

/**
 * With a signed `id.timestamp.body`, the id `a.1` and the timestamp `2` are signed like the id `a` and a timestamp that
 * begins with 1. So a header may not hold the text that ends it. Nor may a value of the body, where that text is longer
 * than a single sign, which the value of an honest provider may have.
 */
const isAmbiguous = (parts: readonly TemplatePart[], delivery: Delivery): boolean =>
  parts.some((part, index) => {
    const next = parts[index + 1];
    if (next === undefined || next.placeholder !== undefined) return false;
    if (part.placeholder === "header")
      return firstHeader(delivery.headers, part.text)?.includes(next.text) ?? false;
    const isInBody = ["json", "item", "form"].includes(part.placeholder ?? "");
    return isInBody && next.text.length > 1 && (fill([part], delivery)?.includes(next.text) ?? false);
  });

/**
 * Null without one. The provider adds it at the end of the URL. Elsewhere, or twice, it is none: whoever has a copy of a signed
 * form could move the form's text into the URL, where a value that a stranger wrote would name the digest of another body.
 */
function digestIn(delivery: Delivery, name: string | undefined): string | null {
  if (name === undefined) return null;
  const { query } = delivery;
  if (!query.has(name)) return null;
  const [last, value] = [...query].at(-1)!;
  return last === name && query.getAll(name).length === 1 ? value : "";
}

function isDigestOf(body: Uint8Array, digest: string): boolean {
  const given = decodeExactly(digest, "hex");
  const real = createHash("sha256").update(body).digest();
  return given !== undefined && isSameDigest(given, real);
}
