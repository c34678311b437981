import type { Delivery } from "../delivery.js";
import { decoded, webhookPath } from "../webhook-path.js";

/**
 * Text with places to fill in from a delivery: `"v0:{timestamp}:{body}"`, `"{header:x-event}"`,
 * `"{json:data.object.id}"`, `"{form:CallSid}"`, `"{query:hub.mode}"`, `"{url}"`, `"{sortedForm}"`.
 */
export type Template = string;

/** Alternatives: the first that can be filled in completely counts. */
export type Templates = Template | readonly Template[];

export type Place =
  | "body"
  | "timestamp"
  | "url"
  | "sortedForm"
  | "header"
  | "query"
  | "json"
  | "form"
  | "path"
  | "hmac";

/** What is known before the signature is: nothing of it comes from a parsed body. */
export const placesInSignedContent: readonly Place[] = [
  "body",
  "timestamp",
  "url",
  "sortedForm",
  "header",
  "query",
];
export const placesInHead: readonly Place[] = ["header", "query"];
export const placesInEvent: readonly Place[] = ["header", "query", "json", "form"];

/** A tenant may also be what follows the source in the path: `/webhooks/{source}/{tenant}`. */
export const placesOfTenant: readonly Place[] = [...placesInEvent, "path"];

export interface TemplatePart {
  /** Absent: the text itself. */
  readonly place?: Place;
  readonly text: string;
}

const placeholder = /\{([a-zA-Z]+)(?::([^{}]+))?\}/g;
const named: readonly string[] = ["header", "query", "json", "form"];

/** The parts of a template, or what is wrong with it. */
export function parseTemplate(template: unknown, places: readonly Place[]): readonly TemplatePart[] | string {
  if (typeof template !== "string" || template === "") return "must be a non-empty template";
  const parts: TemplatePart[] = [];
  let at = 0;
  for (const match of template.matchAll(placeholder)) {
    const [whole, place = "", name] = match;
    const fits = places.includes(place as Place) && named.includes(place) === (name !== undefined);
    if (!fits) return `has ${whole}; what can be filled in here is ${places.map(describePlace).join(", ")}`;
    if (match.index > at) parts.push({ text: template.slice(at, match.index) });
    parts.push({ place: place as Place, text: name ?? "" });
    at = match.index + whole.length;
  }
  if (at < template.length) parts.push({ text: template.slice(at) });
  const stray = parts.some((part) => part.place === undefined && /[{}]/.test(part.text));
  return stray ? "has a brace that belongs to no placeholder" : parts;
}

const describePlace = (place: Place): string => (named.includes(place) ? `{${place}:…}` : `{${place}}`);

/** The text with everything filled in; undefined when the delivery lacks a part of it. */
export function fill(parts: readonly TemplatePart[], delivery: Delivery): string | undefined {
  let text = "";
  for (const part of parts) {
    const value = part.place === undefined ? part.text : valueAt(part, delivery);
    if (value === undefined || value === "") return undefined;
    text += value;
  }
  return text;
}

export function fillFirst(
  alternatives: readonly (readonly TemplatePart[])[],
  delivery: Delivery,
): string | undefined {
  for (const parts of alternatives) {
    const text = fill(parts, delivery);
    if (text !== undefined) return text;
  }
  return undefined;
}

function valueAt({ place, text: name }: TemplatePart, delivery: Delivery): string | undefined {
  switch (place) {
    case "header":
      return delivery.headers.get(name) ?? undefined;
    case "query":
      return delivery.query.get(name) ?? undefined;
    case "form":
      return delivery.form()?.get(name) ?? undefined;
    case "path":
      return tenantInPath(delivery.url);
    case "json":
      return asText(property(delivery.json(), name.split(".")));
    default: // what only signed content or a handshake's answer has
      return undefined;
  }
}

function tenantInPath(url: string): string | undefined {
  const { tenant } = webhookPath(url);
  return tenant === undefined ? undefined : decoded(tenant);
}

function property(value: unknown, path: readonly string[]): unknown {
  let found = value;
  for (const key of path) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return found;
}

/** A number that was rounded while it was read is none: two ids must never become one. */
function asText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
