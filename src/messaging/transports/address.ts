import type { RequestOptions } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { omitUndefined } from "../../base/defined.js";
import { InvalidArgumentError } from "../../errors.js";
import { decoded } from "../../http/plain.js";

/** Where receivers listen, unless their prefix is another. */
export const receivePath = "/_rf/receive";
/** The gRPC method of receivers, from `proto/rf-receiver.proto`. */
const grpcPath = "/RFReceiver/Receive";

/** The schemes that this package serves, by the names that a configuration uses. */
export const transportNames = ["http", "https", "grpc", "grpcs", "unix", "pipe", "inprocess"] as const;
/** The transports between services. */
export type TransportName = (typeof transportNames)[number];

/**
 * The full address of a service. `inventory:5001` gets the scheme of its transport. A service with no address gets the
 * conventional one, where its transport has one.
 *
 * @example
 * completeAddress("email", undefined, "pipe", "http") // "pipe://rf-email"
 */
export function completeAddress(
  serviceId: string,
  address: string | undefined,
  transport: TransportName | undefined,
  defaultTransport: TransportName,
): string {
  const name = transport ?? defaultTransport;
  if (address === undefined || address === "") return conventionalAddress(serviceId, name);
  if (!address.includes("://")) return `${name}://${address}`;
  if (transport !== undefined && schemeOf(address) !== `${transport}:`) {
    throw new InvalidArgumentError(
      `Destination ${serviceId}: its transport is ${transport} and the scheme of its address is ${schemeOf(address)} Give one of them, or the same.`,
    );
  }
  return address;
}

function conventionalAddress(serviceId: string, name: TransportName): string {
  const id = encodeURIComponent(serviceId);
  if (name === "unix") return `unix:///tmp/rf-${id}.sock`;
  if (name === "pipe") return `pipe://rf-${serviceId}`;
  if (name === "inprocess") return `inprocess://${id}`;
  throw new InvalidArgumentError(
    `Destination ${serviceId} has no address. The transport ${name} needs one, such as ${name}://host:port.`,
  );
}

/** The scheme with its colon, in lower case: `https:`. */
export const schemeOf = (address: string): string => `${address.split(":")[0]!.toLowerCase()}:`;

/** Never quotes the address: it may hold a password. */
export function parseAddress(address: string): URL {
  if (URL.canParse(address)) return new URL(address);
  throw new InvalidArgumentError(
    `The address with the scheme ${schemeOf(address)} is not valid. Write it as scheme://host:port/path.`,
  );
}

/** The address as errors may show it: without user, password and query. */
export const shownAddress = ({ protocol, host, pathname }: URL): string => `${protocol}//${host}${pathname}`;

export const httpSchemes: readonly string[] = ["http:", "https:", "unix:", "pipe:"];

/** Where a request of node:http goes. */
interface HttpTarget {
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
    ...omitUndefined({ auth, port: port === "" ? undefined : Number(port) }),
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

/**
 * The path that Node connects to, or listens on, for `unix:///tmp/rf-orders.sock` and `pipe://rf-orders`. A pipe is
 * `\\.\pipe\rf-orders` on Windows. Elsewhere it is a Unix socket in the temporary folder, so one configuration works on
 * both. Processes with different temporary folders (`TMPDIR`) do not meet: they need `unix:`.
 */
export function socketPathOf(url: URL, platform: NodeJS.Platform = process.platform): string {
  const path = url.protocol === "pipe:" ? pipePath(url, platform) : unixPath(url, platform);
  const limit = platform === "darwin" ? 103 : 107; // bytes; a NUL at the end comes on top
  const length = Buffer.byteLength(path);
  if (platform === "win32" || length <= limit) return path;
  throw new InvalidArgumentError(
    `The socket path ${path} has ${length} bytes; the operating system takes ${limit}. Choose a shorter one.`,
  );
}

function pipePath(url: URL, platform: NodeJS.Platform): string {
  const { host: name, pathname } = url;
  if (!/^[\w.-]+$/.test(name) || /^\.+$/.test(name) || pathname !== "") {
    throw new InvalidArgumentError(
      `${shownAddress(url)} is not the address of a pipe. Write pipe://name, with letters, digits, ".", "_" and "-" in the name.`,
    );
  }
  return platform === "win32" ? `\\\\.\\pipe\\${name}` : join(tmpdir(), `${name}.sock`);
}

function unixPath(url: URL, platform: NodeJS.Platform): string {
  if (platform === "win32") {
    throw new InvalidArgumentError(
      `${shownAddress(url)}: Windows has no Unix sockets for Node. Use pipe://name, which works on every system.`,
    );
  }
  const path = decoded(url.pathname);
  if (url.host !== "" || path === undefined || path.length < 2 || path.includes("\0")) {
    throw new InvalidArgumentError(
      `${shownAddress(url)} is not the address of a Unix socket. Write three slashes and an absolute path, as in unix:///tmp/rf-orders.sock.`,
    );
  }
  return path;
}

export const grpcSchemes: readonly string[] = ["grpc:", "grpcs:"];

export interface GrpcTarget {
  readonly isSecure: boolean;
  /** `host:port`. */
  readonly authority: string;
  /** The method: `/RFReceiver/Receive`. */
  readonly path: string;
  readonly shown: string;
}

/** `grpc://host:port`, with the method's path or without it; `grpcs:` for TLS. */
export function grpcTarget(address: string): GrpcTarget {
  const url = parseAddress(address);
  const { protocol, host, port, pathname, username } = url;
  const path = pathname === "" || pathname === "/" ? grpcPath : pathname;
  const isUsable = host !== "" && port !== "" && username === "" && /^\/[\w.]+\/\w+$/.test(path);
  if (!isUsable) {
    throw new InvalidArgumentError(
      `${shownAddress(url)} is not the address of a gRPC receiver. Write ${protocol}//host:port${grpcPath}, without a user.`,
    );
  }
  return { isSecure: protocol === "grpcs:", authority: host, path, shown: `${protocol}//${host}${path}` };
}
