import type { Delivery } from "./delivery.js";
import type { TemplatePart } from "./template.js";

/**
 * Returns the URLs that the provider may have signed, the one that was received first. A gateway or a `Request` may have
 * written an apostrophe as %27 since then, and providers do not agree on whether the standard port is part of the URL.
 */
export function calledUrls({ url }: Delivery, parts: readonly TemplatePart[]): readonly string[] {
  if (!parts.some((part) => part.placeholder === "url")) return [url];
  const spellings = [url, ...(URL.canParse(url) ? [new URL(url).href] : []), url.replaceAll("%27", "'")];
  return [...new Set(spellings.flatMap((one) => [one, withOtherPort(one)]))];
}

/** With the standard port where it is not written, and without it where it is. */
function withOtherPort(url: string): string {
  const [, start = "", host = "", port, rest = ""] =
    /^(https?:\/\/)([^/?#]*?)(:\d+)?([/?#].*)?$/.exec(url) ?? [];
  if (start === "") return url;
  const standard = start === "https://" ? ":443" : ":80";
  return port === undefined ? `${start}${host}${standard}${rest}` : `${start}${host}${rest}`;
}
