import type { PlainRequest } from "../base/plain-http.js";
import type { IncomingHeaders } from "../base/read-body.js";

export interface PublicUrlOptions {
  readonly publicUrl?: string | undefined;
  readonly trustForwardedHeaders?: boolean | undefined;
}

/** Returns the URL that the provider called. Behind a gateway the request itself may have another one. */
export function publicUrlOf(
  request: Pick<PlainRequest, "url" | "headers">,
  path: string,
  options: PublicUrlOptions,
): string {
  const url = new URL(request.url);
  if (options.publicUrl !== undefined) {
    const base = options.publicUrl.replace(/\/+$/, "");
    return `${base}${path}${url.search}`;
  }
  if (!options.trustForwardedHeaders) return url.href;
  const protocol = firstOf(request.headers, "x-forwarded-proto");
  const host = firstOf(request.headers, "x-forwarded-host");
  const valid = (protocol === undefined || /^https?$/.test(protocol)) && /^[\w.:[\]-]*$/.test(host ?? "");
  if (!valid) return url.href;
  const called = `${protocol ?? url.protocol.slice(0, -1)}://${host ?? url.host}${url.pathname}${url.search}`;
  return URL.canParse(called) ? called : url.href;
}

/** The outermost proxy adds the first value. */
const firstOf = (headers: IncomingHeaders, name: string): string | undefined =>
  headers.get(name)?.split(",", 1)[0]?.trim() || undefined;
