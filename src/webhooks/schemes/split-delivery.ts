import { type Delivery, itemDelivery, parseJson } from "./delivery.js";
import { isJsonList, type JsonRange, jsonChildren, jsonDocument } from "./json-ranges.js";
import type { CheckedSplit } from "./read-split.js";

/**
 * Returns the events of a delivery, each with its own text. Nothing is dropped: where the path to the list ends early, what
 * it has reached is one event. A body that is no JSON is one event. Where there are more than `max`, one more than `max` is
 * made: an event takes far more time and memory than the two signs that it may have in the body.
 */
export function splitDelivery(
  delivery: Delivery,
  split: CheckedSplit | undefined,
  max = Number.POSITIVE_INFINITY,
): readonly Delivery[] {
  if (split === undefined) return [delivery];
  const text = split.field === undefined ? jsonTextOf(delivery) : delivery.form()?.get(split.field);
  if (text === undefined || text === null || parseJson(text) === undefined) return [delivery];
  const document = jsonDocument(text);
  const events = eventsAt(text, document, split.path);
  if (events.length === 1 && events[0] === document) return [delivery];
  return events.slice(0, max + 1).map(({ start, end }) => itemDelivery(delivery, text.slice(start, end)));
}

/** GitHub and Slack send JSON in the field `payload` of a form. */
const jsonTextOf = (delivery: Delivery): string | undefined =>
  delivery.form() === undefined ? delivery.text() : (delivery.form()?.get("payload") ?? undefined);

function eventsAt(text: string, range: JsonRange, path: readonly string[]): readonly JsonRange[] {
  const [step, ...rest] = path;
  if (step === undefined) return isJsonList(text, range) ? jsonChildren(text, range) : [range];
  if (step === "*") {
    if (!isJsonList(text, range)) return [range];
    return jsonChildren(text, range).flatMap((child) => eventsAt(text, child, rest));
  }
  // of two members with the same key the last one counts, as it does for JSON.parse
  const child = jsonChildren(text, range).findLast(({ key }) => key === step);
  return child === undefined ? [range] : eventsAt(text, child, rest);
}
