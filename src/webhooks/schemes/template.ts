import { decoded } from "../../base/decoded.js";
import type { Delivery } from "./delivery.js";
import { webhookPath } from "./webhook-path.js";

/**
 * Text with placeholders that are filled in from a delivery: `"v0:{timestamp}:{body}"`, `"{header:x-event}"`,
 * `"{json:data.object.id}"`, `"{item:id}"`, `"{form:CallSid}"`, `"{query:hub.mode}"`, `"{url}"`, `"{sortedForm}"`. Several
 * header names have `|` between them, `"{header:webhook-id|svix-id}"`: the first that the request has is used.
 */
export type Template = string;

/** Alternatives: the first that can be filled in completely is used. */
export type Templates = Template | readonly Template[];

export type Placeholder =
  | "body"
  | "timestamp"
  | "url"
  | "sortedForm"
  | "header"
  | "query"
  | "json"
  | "form"
  | "item"
  | "path"
  | "hmac"
  | "method"
  | "secret"
  | "crc32"
  | "received"
  | "window"
  | "hash";

/** Values that are known before the signature is verified. None of them comes from a parsed body. */
export const placeholdersInSignedContent: readonly Placeholder[] = [
  "body",
  "timestamp",
  "url",
  "sortedForm",
  "header",
  "query",
  "method",
  "secret",
  "crc32",
];
/** Values of the body, for signatures that the body itself has. */
export const placeholdersInSignedBody: readonly Placeholder[] = ["json", "form"];
export const placeholdersInHead: readonly Placeholder[] = ["header", "query"];
export const placeholdersInEvent: readonly Placeholder[] = ["header", "query", "json", "form"];

/** Beside the event's values: a new id, a part of the time, and the hash of the content. */
export const placeholdersOfId: readonly Placeholder[] = ["received", "window", "hash"];

/** The tenant may also be the part of the path after the source: `/webhooks/{source}/{tenant}`. */
export const placeholdersOfTenant: readonly Placeholder[] = [...placeholdersInEvent, "path"];

export interface TemplatePart {
  /** Absent for a part that is literal text. */
  readonly placeholder?: Placeholder;
  /** The literal text, or the name after the colon of a placeholder. */
  readonly text: string;
}

const placeholderPattern = /\{([a-zA-Z]+)(?::([^{}]+))?\}/g;
const named: readonly string[] = ["header", "query", "json", "form", "item", "window"];

/** Returns the parts of a template, or what is wrong with it. */
export function parseTemplate(
  template: unknown,
  allowed: readonly Placeholder[],
): readonly TemplatePart[] | string {
  if (typeof template !== "string" || template === "") return "must be a non-empty template";
  const parts: TemplatePart[] = [];
  let at = 0;
  for (const match of template.matchAll(placeholderPattern)) {
    const [whole, placeholder = "", name] = match;
    const fits =
      allowed.includes(placeholder as Placeholder) && named.includes(placeholder) === (name !== undefined);
    if (!fits) return `has ${whole}; allowed here: ${allowed.map(describePlaceholder).join(", ")}`;
    if (match.index > at) parts.push({ text: template.slice(at, match.index) });
    parts.push({ placeholder: placeholder as Placeholder, text: name ?? "" });
    at = match.index + whole.length;
  }
  if (at < template.length) parts.push({ text: template.slice(at) });
  const stray = parts.some((part) => part.placeholder === undefined && /[{}]/.test(part.text));
  return stray ? "has a brace that belongs to no placeholder" : parts;
}

const describePlaceholder = (name: Placeholder): string =>
  named.includes(name) ? `{${name}:…}` : `{${name}}`;

/** Returns the text with all placeholders filled in, or undefined when the delivery lacks one of the values. */
export function fill(parts: readonly TemplatePart[], delivery: Delivery): string | undefined {
  let text = "";
  for (const part of parts) {
    const value = part.placeholder === undefined ? part.text : filledValue(part, delivery);
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

function filledValue({ placeholder, text: name }: TemplatePart, delivery: Delivery): string | undefined {
  switch (placeholder) {
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
    default: // filled in by the caller: in signed content and in a handshake's answer
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

/** A number that was rounded when it was parsed is no value: two different ids must never become one. */
function asText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
