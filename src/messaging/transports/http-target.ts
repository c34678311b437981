import type { RequestOptions } from "node:http";
import { defined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import { parseAddress, receivePath, shownAddress } from "./address.js";
import { socketPathOf } from "./socket-path.js";

export const httpSchemes = ["http:", "https:", "unix:", "pipe:"] as const;

/** Where a request of node:http goes. */
export interface HttpTarget {
  readonly isSecure: boolean;
  readonly options: RequestOptions;
  /** The address for errors: without credentials. */
  readonly shown: string;
}

/**
 * A path is optional: `/_rf/receive` is meant then. A receiver with another prefix on a socket or pipe is addressed by
 * `unix:///tmp/rf-orders.sock?path=/custom/receive`.
 */
export function httpTarget(address: string): HttpTarget {
  const url = parseAddress(address);
  return url.protocol === "unix:" || url.protocol === "pipe:" ? socketTarget(url) : networkTarget(url);
}

function networkTarget(url: URL): HttpTarget {
  const { username, password, pathname, search, hostname, port } = url;
  const auth =
    username === "" ? undefined : `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const path = pathname === "/" ? receivePath : pathname;
  const options = {
    host: hostname.replace(/^\[(.*)\]$/, "$1"), // Node takes an IPv6 address without its brackets
    path: `${path}${search}`,
    ...defined({ auth, port: port === "" ? undefined : Number(port) }),
  };
  return { isSecure: url.protocol === "https:", options, shown: `${url.protocol}//${url.host}${path}` };
}

function socketTarget(url: URL): HttpTarget {
  const path = url.searchParams.get("path") ?? receivePath;
  if (!/^\/[!-~]*$/.test(path)) {
    throw new InvalidArgumentError(
      `${shownAddress(url)}: path must begin with "/" and have no spaces or other characters that HTTP cannot send.`,
    );
  }
  const headers = { host: "localhost" }; // Node would send the socket's path
  return {
    isSecure: false,
    options: { socketPath: socketPathOf(url), path, headers },
    shown: shownAddress(url),
  };
}
