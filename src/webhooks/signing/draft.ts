import { createDelivery, type Delivery, splitDelivery } from "../schemes/delivery.js";
import type { CheckedScheme } from "../schemes/read-scheme.js";
import type { ParsedTemplate } from "../schemes/template.js";

/** A request that is being signed. */
export interface Draft {
  readonly url: string;
  readonly headers: Headers;
  readonly body: string | Uint8Array;
}

export const deliveryOf = ({ url, headers, body }: Draft): Delivery =>
  createDelivery({
    method: "POST",
    url,
    headers,
    body: typeof body === "string" ? Buffer.from(body) : body,
  });

/** Writes a value to the place that a template reads it from. A template of several parts has no such place. */
export function written(draft: Draft, parts: ParsedTemplate | undefined, value: string): Draft {
  const [part] = parts ?? [];
  if (parts?.length !== 1 || part === undefined) return draft;
  switch (part.placeholder) {
    case "header":
      draft.headers.set(part.text.split("|")[0]!, value);
      return draft;
    case "query": {
      const url = new URL(draft.url);
      url.searchParams.set(part.text, value);
      return { ...draft, url: url.href };
    }
    case "form": {
      const form = new URLSearchParams(String(draft.body));
      form.set(part.text, value);
      return { ...draft, body: form.toString() };
    }
    case "json":
      return withJson(draft, (json) => setAt(json, part.text, value));
    default:
      return draft;
  }
}

/** Changes the body's JSON. A body that is no JSON stays as it is. */
export function withJson(draft: Draft, change: (json: object) => void): Draft {
  const text = deliveryOf(draft).json()?.text();
  const json: unknown = text === undefined ? undefined : JSON.parse(text.replace(/^\uFEFF/, ""));
  if (typeof json !== "object" || json === null) return draft;
  change(json);
  return { ...draft, body: JSON.stringify(json) };
}

/** Sets `a.b.0.c`, and makes the objects on the way to it. */
export function setAt(json: object, path: string, value: unknown): void {
  const steps = path.split(".");
  let inner = json as Record<string, unknown>;
  for (const step of steps.slice(0, -1)) {
    if (typeof inner[step] !== "object" || inner[step] === null) inner[step] = {};
    inner = inner[step] as Record<string, unknown>;
  }
  inner[steps.at(-1)!] = value;
}

/** Writes a value that each item of a delivery has of its own, or that the delivery has once. */
export function writtenToEach(
  draft: Draft,
  { split }: Pick<CheckedScheme, "split">,
  parts: ParsedTemplate,
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
