import type { Cookie } from "@azure/functions";

/**
 * The Set-Cookie headers in the form of Microsoft's library, which keeps only the last of several headers. The library
 * or the host encodes each value as `encodeURIComponent` does, so an encoded value is decoded here.
 */
export const cookiesOf = (headers: Headers): Cookie[] => headers.getSetCookie().map(cookieOf);

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
