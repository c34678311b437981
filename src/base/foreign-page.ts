import type { IncomingHeaders } from "./read-body.js";

/**
 * Whether a browser sends the request for a page of another site. Any page can make it send one, with the rights that the
 * browser's place in the network gives. Only browsers send these headers.
 */
export function isForeignPage(headers: IncomingHeaders): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site !== "same-origin" && site !== "none";
  const origin = headers.get("origin");
  return origin !== null && hostOf(origin) !== headers.get("host")?.toLowerCase();
}

const hostOf = (origin: string): string | undefined =>
  URL.canParse(origin) ? new URL(origin).host : undefined;
