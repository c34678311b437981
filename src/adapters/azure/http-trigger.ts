import type { HttpRequest, HttpResponseInit } from "@azure/functions";
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
