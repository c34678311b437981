import type { IncomingHeaders } from "./http.js";

/** A request with its whole body, read but not yet trusted. What is parsed is parsed on demand, once. */
export interface Delivery {
  readonly method: string;
  /** As the provider called it: what some schemes sign. */
  readonly url: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHeaders;
  readonly body: Uint8Array;
  /** Without parameters, in lower case; empty when none was sent. */
  readonly contentType: string;
  /** undefined when the body is not UTF-8. */
  text(): string | undefined;
  /** undefined when the body is neither JSON nor a form with JSON in its field `payload`, as GitHub and Slack send it. */
  json(): unknown;
  /** undefined when the body is no form. */
  form(): URLSearchParams | undefined;
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
    const content = contentType === "application/x-www-form-urlencoded" ? text() : undefined;
    return content === undefined ? undefined : new URLSearchParams(content);
  });
  const query = once(() => new URL(url).searchParams);
  return {
    method,
    url,
    headers,
    body,
    contentType,
    text,
    form,
    json: once(() => parseJson(form() === undefined ? text() : (form()?.get("payload") ?? undefined))),
    get query() {
      return query();
    },
  };
}

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

/**
 * A byte order mark is kept: the text must become the same bytes again. What is no UTF-8 becomes U+FFFD, which a text may
 * also hold by itself. (A TextDecoder, or `isUtf8` of `node:buffer`, takes longer to load than to use.)
 */
function decodeUtf8(bytes: Uint8Array): string | undefined {
  const raw = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = raw.toString("utf8");
  return text.includes("\uFFFD") && !Buffer.from(text).equals(raw) ? undefined : text;
}

function parseJson(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text.startsWith("\uFEFF") ? text.slice(1) : text);
  } catch {
    return undefined;
  }
}
