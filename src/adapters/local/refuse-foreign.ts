import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";

/**
 * Says why a request to the local run is refused, or undefined. A web page in the developer's browser can send requests
 * here, and a name of the page's own that is pointed at this machine would let it read the answers. So the host must be an
 * address, localhost or the one that the run was given, and a request of another origin is refused. A webhook may come
 * through a tunnel, with the tunnel's host: its signature proves it.
 */
export function foreignRequest({ headers, url = "" }: IncomingMessage, ownHost: string): string | undefined {
  const { host = "", origin } = headers;
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`) return "origin";
  if (url.startsWith("/webhooks/")) return undefined;
  const target = URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : "";
  const name = target.replace(/^\[(.*)\]$/, "$1");
  const isOwn = isIP(name) !== 0 || name === "localhost" || name === ownHost.toLowerCase();
  return host !== "" && isOwn ? undefined : "host";
}
