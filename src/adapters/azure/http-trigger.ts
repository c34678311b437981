import type { Cookie, HttpRequest, HttpResponseInit } from "@azure/functions";
import { omitUndefined } from "../../base/defined.js";
import { headersOf, type PlainRequest, type PlainResponse } from "../../http/plain.js";

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
  client: clientIn(headers),
});

/** Azure's front end puts the address that it sees at the end of the list. What stands before it, the client may have made up. */
const clientIn = (headers: HttpRequest["headers"]): string | undefined =>
  headers.get("x-forwarded-for")?.split(",").at(-1)?.trim().replace(port, "$1");

/** Behind an address of IPv4, or one of IPv6 in brackets. */
const port = /^([^:]+|\[.*\]):\d+$/;

export const fromPlainResponse = (response: PlainResponse): HttpResponseInit => ({
  status: response.status,
  headers: headersOf(response),
  ...omitUndefined({ body: response.body }),
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

/**
 * The Set-Cookie headers in the form of Microsoft's library, which keeps only the last of several headers. The library
 * or the host encodes each value as `encodeURIComponent` does, so an encoded value is decoded here.
 */
const cookiesOf = (headers: Headers): Cookie[] => headers.getSetCookie().map(cookieOf);

function cookieOf(header: string): Cookie {
  const [pair = "", ...attributes] = header.split(";").map((part) => part.trim());
  const [name, value] = splitAt(pair);
  const cookie: Cookie = { name, value: decoded(value) };
  for (const attribute of attributes) {
    const [attributeName, given] = splitAt(attribute);
    setAttribute(cookie, attributeName.toLowerCase(), given);
  }
  return cookie;
}

function setAttribute(cookie: Cookie, name: string, value: string): void {
  if (name === "domain") cookie.domain = value;
  else if (name === "path") cookie.path = value;
  else if (name === "expires") setExpires(cookie, Date.parse(value));
  else if (name === "max-age" && /^-?\d+$/.test(value)) cookie.maxAge = Number(value);
  else if (name === "secure") cookie.secure = true;
  else if (name === "httponly") cookie.httpOnly = true;
  else if (name === "samesite") cookie.sameSite = sameSites[value.toLowerCase()];
}

/** The library drops a time of 1970 or before, which means that the cookie is deleted. Max-Age says the same. */
function setExpires(cookie: Cookie, time: number): void {
  if (time > 0) cookie.expires = new Date(time);
  else if (time <= 0) cookie.maxAge ??= 0;
}

const sameSites: Readonly<Record<string, "Strict" | "Lax" | "None">> = {
  strict: "Strict",
  lax: "Lax",
  none: "None",
};

function splitAt(text: string): readonly [string, string] {
  const at = text.indexOf("=");
  return at < 0 ? [text, ""] : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
