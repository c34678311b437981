import { isUtf8 } from "node:buffer";
import type { IncomingHeaders } from "../../http/body.js";
import type { Report } from "./field-checks.js";
import { type CompiledPlan, compilePlan, type Scanned, scanJson, startOfJson } from "./json-scan.js";
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
  json(): JsonText | undefined;
  /** Returns undefined when the body is not a form. */
  form(): URLSearchParams | undefined;
  /** The event of a split delivery; otherwise the same as `json`. */
  item(): JsonText | undefined;
  readonly plans: JsonPlans;
}

/** What the scheme reads of a body's JSON, and of each event of a split one. */
export interface JsonPlans {
  readonly whole: CompiledPlan;
  /** Of the form's field that has the list of events. */
  readonly field: CompiledPlan;
  readonly item: CompiledPlan;
}

const noPlan = compilePlan({ paths: [] });
const noPlans: JsonPlans = { whole: noPlan, field: noPlan, item: noPlan };

type Request = Pick<Delivery, "method" | "url" | "headers" | "body">;

/** @param plans of the scheme. Without them each value is looked for when it is asked for. */
export function createDelivery(request: Request, plans = noPlans): Delivery {
  const { method, url, headers, body } = request;
  const text = once(() => decodeUtf8(body));
  const form = once(() => (isForm(body) ? new URLSearchParams(text() ?? "") : undefined));
  const json = once(() => readJson({ body, form }, plans));
  return {
    ...{ method, url, headers, body, contentType: contentTypeOf(headers), plans },
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
const decodeUtf8 = (bytes: Uint8Array): string | undefined => (isUtf8(bytes) ? textOf(bytes) : undefined);

/** Far more than any provider sends. To parse more fields takes longer than to verify them. */
const maxFormFields = 10_000;

/**
 * Decided by the body, which is signed, and not by the content type, which is not: whoever has a copy of a delivery could
 * choose how it is read. JSON with an object or a list begins with a bracket, which a form has only in encoded form.
 */
function isForm(body: Uint8Array): boolean {
  let end = 0;
  while (end < body.length && endsFormName[body[end]!] === 0) end++;
  return end > 0 && body[end] === 0x3d && !hasMoreFields(body, maxFormFields) && isUtf8(body);
}

/** White space, brackets, quotes, `=` and `&`. */
const endsFormName = new Uint8Array(256);
for (const sign of ' \t\n\v\f\r{}[]"<>=&') endsFormName[sign.charCodeAt(0)] = 1;

/** Counts before the form is parsed: `getAll` for each field takes time that grows with the square of their number. */
export function hasMoreFields(body: Uint8Array, most: number): boolean {
  let at = -1;
  for (let fields = 1; fields <= most; fields++) {
    at = body.indexOf(0x26, at + 1); // &
    if (at < 0) return false;
  }
  return true;
}

/** GitHub and Slack send JSON in the field `payload` of a form. */
function readJson(
  { body, form }: Pick<Delivery, "body" | "form">,
  { whole }: JsonPlans,
): JsonText | undefined {
  const fields = form();
  if (fields === undefined) return isUtf8(body) ? JsonText.read(body, whole) : undefined;
  const payload = fields.get("payload");
  return payload === null ? undefined : JsonText.read(Buffer.from(payload), whole);
}

export const contentTypeOf = (headers: IncomingHeaders): string =>
  (headers.get("content-type") ?? "").split(";", 1)[0]!.trim().toLowerCase();

export const isJsonType = (contentType: string): boolean =>
  contentType === "application/json" || contentType.endsWith("+json");

/** Returns a delivery by GET with its query as its content: it is read like a form. */
export function formOfQuery(delivery: Delivery): Delivery {
  if (delivery.method !== "GET") return delivery;
  const { method, url, headers } = delivery;
  return createDelivery(
    { method, url, headers, body: Buffer.from(new URL(url).search.slice(1)) },
    delivery.plans,
  );
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
  const document = split.field === undefined ? delivery.json() : fieldJson(delivery, split.field);
  const items = document?.items(split.path, max, delivery.plans.item);
  return items?.map((item) => itemDelivery(delivery, item)) ?? [delivery];
}

function fieldJson({ form, plans }: Delivery, field: string): JsonText | undefined {
  const text = form()?.get(field) ?? undefined;
  return text === undefined ? undefined : JsonText.read(Buffer.from(text), plans.field);
}

/** Returns one event of a delivery. Its body is the event's own text; `json`, `form` and the rest are those of the whole. */
const itemDelivery = (whole: Delivery, item: JsonText): Delivery => ({
  ...whole,
  contentType: "application/json",
  body: item.bytes,
  text: once(() => item.text()),
  item: () => item,
});

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

/** As many as Event Grid, which sends the most. A database would not store many more within the time that a provider waits. */
export const maxEvents = 5_000;

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

/** A JSON document of which a few values are read. It is scanned once for all that its plan names. */
export class JsonText {
  readonly bytes: Uint8Array;
  readonly #plan: CompiledPlan;
  /** Of a few paths, so that a list is found sooner than a map is made. */
  readonly #values: { readonly path: string; readonly text: string | undefined }[] = [];
  #scanned: Scanned | undefined;
  /** Those of the plan's list. */
  #items: readonly JsonText[] | "whole" | undefined;

  private constructor(bytes: Uint8Array, plan: CompiledPlan, scanned?: Scanned) {
    this.bytes = bytes;
    this.#plan = plan;
    this.#scanned = scanned;
  }

  /** Returns undefined for what is no JSON, or is nested too deeply. */
  static read(bytes: Uint8Array, plan = noPlan): JsonText | undefined {
    const scanned = scanJson(bytes, plan);
    return scanned && new JsonText(bytes, plan, scanned);
  }

  get isObject(): boolean {
    return this.bytes[startOfJson(this.bytes)] === 0x7b;
  }

  text(): string {
    return textOf(this.bytes);
  }

  /** Returns the text or the whole number at a path: `data.items.0.id`. */
  value(path: string): string | undefined {
    for (const known of this.#values) if (known.path === path) return known.text;
    const text = asText(parsed(this.#bytesAt(path)));
    this.#values.push({ path, text });
    return text;
  }

  /** Returns the texts of a list, or the one that is there instead. Of a longer list, one more than `max`. */
  values(path: string, max: number): readonly (string | undefined)[] {
    const found = this.#bytesAt(path);
    const items = found && (new JsonText(found, noPlan).items([], max) ?? [new JsonText(found, noPlan)]);
    return items?.map(({ bytes }) => asText(parsed(bytes))) ?? [];
  }

  /**
   * The items of the list that the steps lead to; a `*` goes into each item of a list. Where the steps end early, what they have
   * reached is one item. Of a longer list, one more than `max`. Undefined where the document itself is the one item.
   */
  items(steps: readonly string[], max: number, plan = noPlan): readonly JsonText[] | undefined {
    if (this.#plan.list === steps) {
      this.#items ??= this.#itemsOf(this.#scan(), plan);
      return this.#items === "whole" ? undefined : this.#items.slice(0, max + 1);
    }
    const own = compilePlan({ paths: [], list: steps, maxItems: max });
    const items = this.#itemsOf(scanJson(this.bytes, own)!, noPlan);
    return items === "whole" ? undefined : items;
  }

  #itemsOf({ items }: Scanned, plan: CompiledPlan): readonly JsonText[] | "whole" {
    if (items.length === 1 && items[0]!.start === startOfJson(this.bytes)) return "whole";
    return items.map(({ start, end, found }) => {
      const bytes = this.bytes.subarray(start, end);
      return plan === noPlan ? new JsonText(bytes, noPlan) : new JsonText(bytes, plan, found);
    });
  }

  /** The bytes without the members that the plan leaves out. */
  stable(): Uint8Array {
    const { cuts } = this.#scan();
    if (cuts.length === 0) return this.bytes;
    const kept: Uint8Array[] = [];
    for (let at = 0; at <= cuts.length; at += 2)
      kept.push(this.bytes.subarray(at === 0 ? 0 : cuts[at - 1], cuts[at]));
    return Buffer.concat(kept);
  }

  /** A part of a document is scanned when something of it is asked for. It is valid, as all of the document is. */
  #scan(): Scanned {
    this.#scanned ??= scanJson(this.bytes, this.#plan)!;
    return this.#scanned;
  }

  #bytesAt(path: string): Uint8Array | undefined {
    const index = this.#plan.indexes.get(path);
    if (index === undefined) return new JsonText(this.bytes, compilePlan({ paths: [path] })).#bytesAt(path);
    const { starts, ends } = this.#scan();
    return starts[index]! < 0 ? undefined : this.bytes.subarray(starts[index], ends[index]);
  }
}

const textOf = (bytes: Uint8Array): string =>
  bytes instanceof Buffer
    ? bytes.toString("utf8")
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");

/** Only texts and numbers are values, and no object is made of the others. */
const parsed = (bytes: Uint8Array | undefined): unknown =>
  bytes === undefined || bytes[0] === 0x7b || bytes[0] === 0x5b ? undefined : JSON.parse(textOf(bytes));

/** A number that was rounded when it was parsed is no value: two different ids must never become one. */
function asText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
