import { isUtf8 } from "node:buffer";
import type { IncomingHeaders } from "../../base/read-body.js";

/** A request with its whole body, not yet trusted. The body is parsed on demand, once. */
export interface Delivery {
  readonly method: string;
  /** The URL that the provider called. Some schemes sign it. */
  readonly url: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHeaders;
  readonly body: Uint8Array;
  /** Without parameters, in lower case. Empty when the header is absent. */
  readonly contentType: string;
  /** Returns undefined when the body is not UTF-8. */
  text(): string | undefined;
  /** Returns undefined when the body is neither JSON nor a form with JSON in its field `payload`, as GitHub and Slack send it. */
  json(): unknown;
  /** Returns undefined when the body is not a form. */
  form(): URLSearchParams | undefined;
  /** The event of a split delivery; otherwise the same as `json`. */
  item(): unknown;
}

export interface DeliveryParts {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHeaders;
  readonly body: Uint8Array;
}

export function createDelivery({ method, url, headers, body }: DeliveryParts): Delivery {
  const contentType = contentTypeOf(headers);
  const text = once(() => decodeUtf8(body));
  const form = once(() => {
    const content = text();
    return content !== undefined && formShape.test(content) ? new URLSearchParams(content) : undefined;
  });
  const query = once(() => new URL(url).searchParams);
  const json = once(() => parseJson(form() === undefined ? text() : (form()?.get("payload") ?? undefined)));
  return {
    method,
    url,
    headers,
    body,
    contentType,
    text,
    form,
    json,
    item: json,
    get query() {
      return query();
    },
  };
}

/** Returns a delivery by GET with its query as its content: it is read like a form. */
export function formOfQuery(delivery: Delivery): Delivery {
  if (delivery.method !== "GET") return delivery;
  const { method, url, headers } = delivery;
  return createDelivery({ method, url, headers, body: Buffer.from(new URL(url).search.slice(1)) });
}

/** Returns one event of a delivery. Its body is the event's own text; `json`, `form` and the rest are those of the whole. */
export function itemDelivery(whole: Delivery, content: string): Delivery {
  return {
    method: whole.method,
    url: whole.url,
    headers: whole.headers,
    contentType: "application/json",
    body: Buffer.from(content),
    text: () => content,
    form: whole.form,
    json: whole.json,
    item: once(() => parseJson(content)),
    get query() {
      return whole.query;
    },
  };
}

/**
 * Decided by the body, which is signed, and not by the content type, which is not: whoever has a copy of a delivery could
 * choose how it is read. JSON with an object or a list begins with a bracket, which a form has only in encoded form.
 */
const formShape = /^[^\s{}[\]"<>=&]+=/;

export const contentTypeOf = (headers: IncomingHeaders): string =>
  (headers.get("content-type") ?? "").split(";", 1)[0]!.trim().toLowerCase();

export const isJsonType = (contentType: string): boolean =>
  contentType === "application/json" || contentType.endsWith("+json");

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

export function parseJson(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text.startsWith("\uFEFF") ? text.slice(1) : text);
  } catch {
    return undefined;
  }
}
