import type { PlainRequest } from "../base/plain-http.js";
import type { IncomingHeaders } from "../base/read-body.js";

export interface PublicUrlOptions {
  readonly publicUrl?: string | undefined;
  readonly trustForwardedHeaders?: boolean | undefined;
}

/**
 * Returns the URL that the provider called. Behind a gateway the request itself may have another one. Its text stays as it
 * was received, because schemes sign it: `URL` would write an apostrophe of the query as an escape.
 */
export function publicUrlOf(
  { url, headers }: Pick<PlainRequest, "url" | "headers">,
  path: string,
  options: PublicUrlOptions,
): string {
  const [, protocol = "", host = "", rest = ""] = /^(\w+):\/\/([^/?#]*)(.*)$/s.exec(url) ?? [];
  if (options.publicUrl !== undefined) {
    const base = options.publicUrl.replace(/\/+$/, "");
    const [search = ""] = /\?[^#]*/.exec(rest) ?? [];
    return `${base}${path}${search}`;
  }
  if (!options.trustForwardedHeaders) return url;
  const forwardedProtocol = firstOf(headers, "x-forwarded-proto") ?? protocol;
  const forwardedHost = firstOf(headers, "x-forwarded-host") ?? host;
  if (!/^https?$/.test(forwardedProtocol) || !/^[\w.:[\]-]*$/.test(forwardedHost)) return url;
  const called = `${forwardedProtocol}://${forwardedHost}${rest}`;
  return URL.canParse(called) ? called : url;
}

/** The outermost proxy adds the first value. */
const firstOf = (headers: IncomingHeaders, name: string): string | undefined =>
  headers.get(name)?.split(",", 1)[0]?.trim() || undefined;
