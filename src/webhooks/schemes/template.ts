import type { IncomingHeaders } from "../../http/body.js";
import { decoded } from "../../http/plain.js";
import type { Delivery } from "./delivery.js";

/**
 * Text with placeholders that are filled in from a delivery: `"v0:{timestamp}:{body}"`, `"{header:x-event}"`,
 * `"{json:data.object.id}"`, `"{item:id}"`, `"{form:CallSid}"`, `"{query:hub.mode}"`, `"{url}"`, `"{sortedForm}"`. Several
 * header names have `|` between them, `"{header:webhook-id|svix-id}"`: the first that the request has is used.
 */
export type Template = string;

/** Alternatives: the first that can be filled in completely is used. */
export type Templates = Template | readonly Template[];

/** Values that are known before the signature is verified. None of them comes from a parsed body. */
export const placeholdersInSignedContent = [
  "body",
  "timestamp",
  "url",
  "decodedUrl",
  "sortedForm",
  "header",
  "query",
  "method",
  "secret",
  "crc32",
] as const;

/** Values of the body, for signatures that the body itself has. */
export const placeholdersInSignedBody = ["json", "form"] as const;
export const placeholdersInHead = ["header", "query"] as const;
export const placeholdersInEvent = ["header", "query", "json", "form"] as const;

/** Beside the event's values: a new id, a part of the time, and the hash of the content. */
export const placeholdersOfId = ["received", "window", "hash"] as const;

/** The tenant may also be the part of the path after the source: `/webhooks/{source}/{tenant}`. */
export const placeholdersOfTenant = [...placeholdersInEvent, "path"] as const;

type FromRequest = (typeof placeholdersInSignedContent | typeof placeholdersOfTenant)[number];
export type Placeholder = FromRequest | (typeof placeholdersOfId)[number] | "item" | "hmac";

export interface TemplatePart {
  /** Absent for a part that is literal text. */
  readonly placeholder?: Placeholder;
  /** The literal text, or the name after the colon of a placeholder. */
  readonly text: string;
  /** `{json:name?}`: the text is empty where the delivery lacks the value. */
  readonly isOptional?: true;
}

/** A template in its parts. */
export type ParsedTemplate = readonly TemplatePart[];

/** The first that can be filled in completely is used. */
export type Alternatives = readonly ParsedTemplate[];

const placeholderPattern = /\{([a-zA-Z][a-zA-Z0-9]*)(?::([^{}]+))?\}/g;
const namedPlaceholders: readonly string[] = ["header", "query", "json", "form", "item", "window"];

/** Returns the parts of a template, or what is wrong with it. */
export function parseTemplate(template: unknown, allowed: readonly Placeholder[]): ParsedTemplate | string {
  if (typeof template !== "string" || template === "") return "must be a non-empty template";
  const parts: TemplatePart[] = [];
  let at = 0;
  for (const match of template.matchAll(placeholderPattern)) {
    const [whole, placeholder = "", name] = match;
    const fits =
      allowed.includes(placeholder as Placeholder) &&
      namedPlaceholders.includes(placeholder) === (name !== undefined);
    if (!fits) return `has ${whole}; allowed here: ${allowed.map(describePlaceholder).join(", ")}`;
    if (match.index > at) parts.push({ text: template.slice(at, match.index) });
    const isOptional = name?.endsWith("?") ?? false;
    if (isOptional && !allowed.includes("body"))
      return `has ${whole}; a value may be optional in signed content only`;
    parts.push({
      placeholder: placeholder as Placeholder,
      text: isOptional ? name!.slice(0, -1) : (name ?? ""),
      ...(isOptional ? { isOptional: true as const } : {}),
    });
    at = match.index + whole.length;
  }
  if (at < template.length) parts.push({ text: template.slice(at) });
  const stray = parts.some((part) => part.placeholder === undefined && /[{}]/.test(part.text));
  return stray ? "has a brace that belongs to no placeholder" : parts;
}

const describePlaceholder = (name: Placeholder): string =>
  namedPlaceholders.includes(name) ? `{${name}:…}` : `{${name}}`;

/** Values that the delivery itself does not have, by their placeholders. */
export type OwnValues = Readonly<Partial<Record<Placeholder, (name: string) => string | undefined>>>;

/** Returns the text with all placeholders filled in, or undefined when the delivery lacks one of the values. */
export function fill(parts: ParsedTemplate, delivery: Delivery, own: OwnValues = {}): string | undefined {
  let text = "";
  for (const part of parts) {
    const value = filledPart(part, delivery, own);
    if (!value && !part.isOptional) return undefined;
    text += value ?? "";
  }
  return text;
}

export function fillFirst(alternatives: Alternatives, delivery: Delivery): string | undefined {
  for (const parts of alternatives) {
    const text = fill(parts, delivery);
    if (text !== undefined) return text;
  }
  return undefined;
}

function filledPart(part: TemplatePart, delivery: Delivery, own: OwnValues): string | undefined {
  const { placeholder, text: name } = part;
  switch (placeholder) {
    case undefined:
      return name;
    case "header":
      return firstHeader(delivery.headers, name) ?? undefined;
    case "query":
      return delivery.query().get(name) ?? undefined;
    case "form":
      return delivery.form()?.get(name) ?? undefined;
    case "path":
      return decoded(webhookPath(delivery.url).tenant ?? "");
    case "json":
      return delivery.json()?.value(name);
    case "item":
      return delivery.item()?.value(name);
    case "method":
      return delivery.method;
    default:
      return own[placeholder]?.(name);
  }
}

/** Returns the value of the first of these headers that the request has. Several names have `|` between them. */
export function firstHeader(headers: IncomingHeaders, names: string): string | null {
  for (const name of names.split("|")) {
    const value = headers.get(name);
    if (value !== null) return value;
  }
  return null;
}

/**
 * The parts of `/webhooks/{source}` or `/webhooks/{source}/{tenant}`, still percent-encoded. `path` is without the prefix
 * that a gateway adds.
 */
export function webhookPath(url: string) {
  const [, path = "", source = "", tenant] =
    /^.*(\/webhooks\/([^/]+)(?:\/([^/]+))?\/?)$/.exec(new URL(url).pathname) ?? [];
  return { path, source, tenant };
}

const unitsMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Returns the milliseconds of `30s`, `5m`, `1h` or `1d`, or undefined for any other text. */
export function windowMs(text: string): number | undefined {
  const [, count, unit] = /^([1-9]\d{0,4})([smhd])$/.exec(text) ?? [];
  return count === undefined ? undefined : Number(count) * unitsMs[unit as keyof typeof unitsMs];
}

/** The start of the window in which `now` lies: `2026-11-17T09:40:00Z`. */
export function timeWindow(text: string, now: Date): string | undefined {
  const ms = windowMs(text);
  if (ms === undefined) return undefined;
  return new Date(Math.floor(now.getTime() / ms) * ms).toISOString().replace(".000Z", "Z");
}
