import type { Delivery } from "./delivery.js";
import type { TemplatePart } from "./template.js";

/**
 * Returns the URLs that the provider may have signed, the one that was received first. A gateway or a `Request` may have
 * written an apostrophe as %27 since then, and providers do not agree on whether the standard port is part of the URL.
 */
export function calledUrls({ url }: Delivery, parts: readonly TemplatePart[]): readonly string[] {
  const has = (name: TemplatePart["placeholder"]) => parts.some((part) => part.placeholder === name);
  const isDecoded = has("decodedUrl");
  if (!isDecoded && !has("url")) return [url];
  const spellings = [url, ...(URL.canParse(url) ? [new URL(url).href] : []), url.replaceAll("%27", "'")];
  const all = isDecoded ? [...spellings.map(decodedUrl), ...spellings] : spellings;
  return [...new Set(all.flatMap((one) => [one, withOtherPort(one)]))];
}

/** The signs that HubSpot writes without an escape before it signs: `: / ? @ ! $ ' ( ) * , ;`. All others stay escaped. */
const decodedUrl = (url: string): string =>
  url.replace(/%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi, (escaped) =>
    String.fromCharCode(Number.parseInt(escaped.slice(1), 16)),
  );

/** With the standard port where it is not written, and without it where it is. */
function withOtherPort(url: string): string {
  const [, start = "", host = "", port, rest = ""] =
    /^(https?:\/\/)([^/?#]*?)(:\d+)?([/?#].*)?$/.exec(url) ?? [];
  if (start === "") return url;
  const standard = start === "https://" ? ":443" : ":80";
  return port === undefined ? `${start}${host}${standard}${rest}` : `${start}${host}${rest}`;
}
