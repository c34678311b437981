import type { Delivery } from "./delivery.js";
import { fill, type TemplatePart } from "./template.js";

/** Values that a delivery itself does not have. */
export interface SignedValues {
  readonly timestamp: string;
  readonly url: string;
  readonly sortedForm: string;
}

/** Returns the bytes that are signed, or undefined when the delivery lacks a header that is part of them. */
export function signedBytes(
  parts: readonly TemplatePart[],
  delivery: Delivery,
  values: SignedValues,
): Uint8Array | undefined {
  const pieces: Uint8Array[] = [];
  for (const part of parts) {
    const { placeholder } = part;
    if (placeholder === "body") pieces.push(delivery.body);
    else {
      const isGiven = placeholder === "timestamp" || placeholder === "url" || placeholder === "sortedForm";
      const text = isGiven ? values[placeholder] : fill([part], delivery);
      if (text === undefined) return undefined;
      pieces.push(Buffer.from(text));
    }
  }
  return Buffer.concat(pieces);
}

/** No provider sends more fields, and a form is sorted before its signature is verified. */
const maxFields = 1_000;
/** Twilio's forms have a few kilobytes. A longer one is not parsed before it is believed. */
const maxFormBytes = 256 * 1_024;

/**
 * Returns every field name with its values, sorted and without separators. Returns undefined when the body is not a form
 * or has too many fields.
 */
export function sortedForm(delivery: Delivery): string | undefined {
  if (delivery.body.length === 0) return "";
  if (delivery.body.length > maxFormBytes || hasTooManyFields(delivery.body)) return undefined;
  const form = delivery.form();
  if (form === undefined) return undefined;
  const names = [...new Set(form.keys())].sort();
  return names
    .flatMap((name) => [...new Set(form.getAll(name))].sort().map((value) => name + value))
    .join("");
}

/** Counts before the form is parsed: `getAll` for each field takes time that grows with the square of their number. */
function hasTooManyFields(body: Uint8Array): boolean {
  let at = -1;
  for (let fields = 1; fields <= maxFields; fields++) {
    at = body.indexOf(0x26, at + 1); // &
    if (at < 0) return false;
  }
  return true;
}
