import type { Delivery } from "./delivery.js";
import { isJsonList, type JsonRange, jsonChildren, jsonDocument } from "./json-ranges.js";

/**
 * Returns the content without the fields that differ between two deliveries of one event. It is hashed and not read. Cut
 * out of the text, so that two numbers that JSON would round to one stay different.
 */
export function stableContent(delivery: Delivery, volatileFields: readonly string[]): Uint8Array | string {
  const text = delivery.text();
  if (volatileFields.length === 0 || text === undefined || delivery.item() === undefined)
    return delivery.body;
  if (delivery.form() !== undefined && delivery.item() === delivery.json()) return delivery.body;
  const document = jsonDocument(text);
  const cuts = volatileFields
    .flatMap((path) => membersAt(text, document, path.split(".")))
    .sort((a, b) => a.from - b.from);
  let kept = "";
  let at = 0;
  for (const { from, end } of cuts) {
    if (from < at) continue; // within a field that is cut already
    kept += text.slice(at, from);
    at = end;
  }
  return kept + text.slice(at);
}

/** A name goes into each item of a list: `attempt` is also the field of all items. */
function membersAt(text: string, range: JsonRange, path: readonly string[]): readonly JsonRange[] {
  const [step, ...rest] = path;
  const children = jsonChildren(text, range);
  if (step !== "*" && isJsonList(text, range)) return children.flatMap((item) => membersAt(text, item, path));
  const found = step === "*" ? children : children.filter(({ key }) => key === step);
  return rest.length === 0 ? found : found.flatMap((child) => membersAt(text, child, rest));
}
