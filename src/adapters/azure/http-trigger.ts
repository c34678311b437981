import type { HttpRequest, HttpResponseInit } from "@azure/functions";
import { defined } from "../../base/defined.js";
import { headersOf } from "../../base/headers-of.js";
import type { PlainRequest, PlainResponse } from "../../base/plain-http.js";
import { cookiesOf } from "./set-cookies.js";

/** All methods, because the host answers 404 for the others. The routes answer 405 themselves. */
export const allMethods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;

/** A web Request. The body has the bytes that were sent, and is a stream if the host streams it. */
export function requestFromHost({ url, method, headers, body }: HttpRequest): Request {
  const init: RequestInit & { duplex?: "half" } = { method, headers };
  if (body !== null) {
    init.body = body;
    init.duplex = "half";
  }
  return new Request(url, init);
}

/** The parts of a request, for routes that need no web Request. */
export const plainRequest = ({ method, url, headers, body }: HttpRequest): PlainRequest => ({
  method,
  url,
  path: new URL(url).pathname,
  headers,
  body,
});

export const fromPlainResponse = (response: PlainResponse): HttpResponseInit => ({
  status: response.status,
  headers: headersOf(response),
  ...defined({ body: response.body }),
});

export const toHttpResponse = ({ status, headers, body }: Response): HttpResponseInit => ({
  status,
  ...(headers.getSetCookie().length > 1
    ? { headers: withoutCookies(headers), cookies: cookiesOf(headers) }
    : { headers }), // a single cookie stays exactly as the handler wrote it
  ...(body === null ? {} : { body }),
});

function withoutCookies(headers: Headers): Headers {
  const others = new Headers(headers);
  others.delete("set-cookie");
  return others;
}
