import type { Delivery } from "../schemes/delivery.js";
import type { CheckedScheme } from "../schemes/read-scheme.js";
import { splitDelivery } from "../schemes/split-delivery.js";
import type { TemplatePart } from "../schemes/template.js";
import { type Draft, deliveryOf, setAt, withJson, written } from "./draft.js";

/** Writes a value that each item of a delivery has of its own, or that the delivery has once. */
export function writtenToEach(
  draft: Draft,
  { split }: Pick<CheckedScheme, "split">,
  parts: readonly TemplatePart[],
  valueFor: (event: Delivery) => string,
): Draft {
  const [part] = parts;
  if (part?.placeholder !== "item") return written(draft, parts, valueFor(deliveryOf(draft)));
  const values = splitDelivery(deliveryOf(draft), split).map(valueFor);
  return withJson(draft, (json) => {
    for (const [index, item] of itemsAt(json, split?.path ?? []).entries())
      setAt(item as object, part.text, values[index]);
  });
}

/** The objects that `splitDelivery` makes events of, in the same order. */
function itemsAt(value: unknown, path: readonly string[]): readonly unknown[] {
  const [step, ...rest] = path;
  if (step === undefined) return Array.isArray(value) ? value : [value];
  if (step === "*") return Array.isArray(value) ? value.flatMap((child) => itemsAt(child, rest)) : [value];
  const child = (value as Readonly<Record<string, unknown>> | null)?.[step];
  return child === undefined ? [value] : itemsAt(child, rest);
}
