import type { Delivery } from "./delivery.js";

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

/** Counts before the form is parsed: `getAll` for each field takes time that grows with the square of their number. */
function hasMoreFields(body: Uint8Array, most: number): boolean {
  let at = -1;
  for (let fields = 1; fields <= most; fields++) {
    at = body.indexOf(0x26, at + 1); // &
    if (at < 0) return false;
  }
  return true;
}
