import { isUtf8 } from "node:buffer";
import type { IncomingHeaders } from "../../http/body.js";
import type { Report } from "./field-checks.js";
import type { CheckedScheme } from "./read-scheme.js";

/** A request with its whole body, not yet trusted. The body is parsed on demand, once. */
export interface Delivery {
  readonly method: string;
  /** The URL that the provider called. Some schemes sign it. */
  readonly url: string;
  readonly headers: IncomingHeaders;
  readonly body: Uint8Array;
  /** Without parameters, in lower case. Empty when the header is absent. */
  readonly contentType: string;
  query(): URLSearchParams;
  /** Returns undefined when the body is not UTF-8. */
  text(): string | undefined;
  /** Returns undefined when the body is neither JSON nor a form with JSON in its field `payload`, as GitHub and Slack send it. */
  json(): unknown;
  /** Returns undefined when the body is not a form. */
  form(): URLSearchParams | undefined;
  /** The event of a split delivery; otherwise the same as `json`. */
  item(): unknown;
}

export function createDelivery(request: Pick<Delivery, "method" | "url" | "headers" | "body">): Delivery {
  const { method, url, headers, body } = request;
  const text = once(() => decodeUtf8(body));
  const form = once(() => {
    const content = text();
    return content !== undefined && formShape.test(content) ? new URLSearchParams(content) : undefined;
  });
  const json = once(() => parseJson(jsonTextOf({ text, form })));
  return {
    ...{ method, url, headers, body, contentType: contentTypeOf(headers) },
    query: once(() => new URL(url).searchParams),
    ...{ text, form, json, item: json },
  };
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** Keeps a byte order mark, which a TextDecoder drops: the text must encode to the same bytes again. */
const decodeUtf8 = (bytes: Uint8Array): string | undefined =>
  isUtf8(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8") : undefined;

/**
 * Decided by the body, which is signed, and not by the content type, which is not: whoever has a copy of a delivery could
 * choose how it is read. JSON with an object or a list begins with a bracket, which a form has only in encoded form.
 */
const formShape = /^[^\s{}[\]"<>=&]+=/;

/** GitHub and Slack send JSON in the field `payload` of a form. */
function jsonTextOf({ text, form }: Pick<Delivery, "text" | "form">): string | undefined {
  const fields = form();
  return fields === undefined ? text() : (fields.get("payload") ?? undefined);
}

export function parseJson(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text.startsWith("\uFEFF") ? text.slice(1) : text);
  } catch {
    return undefined;
  }
}

export const contentTypeOf = (headers: IncomingHeaders): string =>
  (headers.get("content-type") ?? "").split(";", 1)[0]!.trim().toLowerCase();

export const isJsonType = (contentType: string): boolean =>
  contentType === "application/json" || contentType.endsWith("+json");

/** Returns a delivery by GET with its query as its content: it is read like a form. */
export function formOfQuery(delivery: Delivery): Delivery {
  if (delivery.method !== "GET") return delivery;
  const { method, url, headers } = delivery;
  return createDelivery({ method, url, headers, body: Buffer.from(new URL(url).search.slice(1)) });
}

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

/** Returns one event of a delivery. Its body is the event's own text; `json`, `form` and the rest are those of the whole. */
const itemDelivery = (whole: Delivery, content: string): Delivery => ({
  ...whole,
  contentType: "application/json",
  body: Buffer.from(content),
  text: () => content,
  item: once(() => parseJson(content)),
});

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

/** Where a body has the list of events. */
export interface CheckedSplit {
  /** The form's field with the JSON; undefined where the body is the JSON. */
  readonly field: string | undefined;
  /** The steps to the list. A `*` goes into each item of a list. Empty where the JSON itself is the list. */
  readonly path: readonly string[];
}

export function readSplit(split: unknown, report: Report): CheckedSplit | undefined {
  if (split === undefined) return undefined;
  const [, kind, name = ""] = /^\{(json|form):([^{}]*)\}$/.exec(String(split)) ?? [];
  if (kind === undefined || (kind === "form" && name === "")) {
    report("split must be {json:path}, {json:} for the whole body, or {form:name}");
    return undefined;
  }
  if (kind === "form") return { field: name, path: [] };
  return { field: undefined, path: name === "" ? [] : name.split(".") };
}

/** A body is parsed before it is believed only where it has the signature or the token itself. Then it is short. */
export const maxParsedBytes = 1_048_576;
export const maxItems = 1_000;

/** Returns the parts of a delivery of which each has its own proof: its items, or the whole delivery. */
export function provenEvents(
  delivery: Delivery,
  { proof, signatureIn, split }: Pick<CheckedScheme, "proof" | "signatureIn" | "split">,
): readonly Delivery[] | "body too long to verify" | "too many items to verify" {
  const isPerItem = [...proof, signatureIn ?? []].flat().some(({ placeholder }) => placeholder === "item");
  if (!isPerItem && signatureIn === undefined) return [delivery];
  if (delivery.body.length > maxParsedBytes) return "body too long to verify";
  if (!isPerItem) return [delivery];
  const events = splitDelivery(delivery, split, maxItems);
  return events.length > maxItems ? "too many items to verify" : events;
}

/** Where a value is in the text of a JSON document, and its key where it is a member of an object. */
export interface JsonRange {
  readonly start: number;
  readonly end: number;
  readonly key: string | undefined;
  /** Where the member starts, at its key. */
  readonly from: number;
}

/** The range of the whole document. */
export function jsonDocument(text: string): JsonRange {
  const start = skipBlank(text, 0);
  return { start, from: start, end: endOfValue(text, start), key: undefined };
}

export const isJsonList = (text: string, { start }: JsonRange): boolean => text[start] === "[";

/**
 * Returns the members of an object or the items of a list. The text must be valid JSON. Texts are cut out as they were
 * sent: a value that is parsed and written again may have lost digits of its numbers.
 */
export function jsonChildren(text: string, { start }: JsonRange): readonly JsonRange[] {
  const isObject = text[start] === "{";
  if (!isObject && text[start] !== "[") return [];
  const children: JsonRange[] = [];
  let at = skipBlank(text, start + 1);
  while (text[at] !== "}" && text[at] !== "]") {
    const from = at;
    let key: string | undefined;
    if (isObject) {
      const keyEnd = endOfString(text, at);
      key = JSON.parse(text.slice(at, keyEnd)) as string;
      at = skipBlank(text, skipBlank(text, keyEnd) + 1); // past the colon
    }
    const end = endOfValue(text, at);
    children.push({ start: at, end, from, key });
    at = skipBlank(text, end);
    if (text[at] === ",") at = skipBlank(text, at + 1);
  }
  return children;
}

function skipBlank(text: string, from: number): number {
  let at = from;
  while (" \n\r\t\uFEFF".includes(text[at] ?? "x")) at++;
  return at;
}

/** Returns the index after the closing quote of the string that starts here. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let escapes = 0;
    while (text[at - 1 - escapes] === "\\") escapes++;
    if (escapes % 2 === 0) return at + 1;
  }
  return text.length;
}

/** Walks through nested values without recursion: they may be nested deeper than the stack allows. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; ) {
    const sign = text[at]!;
    if (sign === '"') {
      at = endOfString(text, at);
      if (depth === 0) return at;
      continue;
    }
    if (sign === "{" || sign === "[") depth++;
    else if (sign === "}" || sign === "]") {
      if (depth === 0) return at; // the end of a number or a word, in a list or an object
      depth--;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (sign === "," || " \n\r\t".includes(sign))) return at;
    at++;
  }
  return text.length;
}
