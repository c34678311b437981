import type { LookupAddress } from "node:dns";
import type { ClientRequest, IncomingMessage, RequestOptions } from "node:http";
import { isIP, type LookupFunction } from "node:net";
import { InvalidOperationError } from "../errors.js";
import { isPublicAddress } from "./public-address.js";

export interface PostRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  readonly signal: AbortSignal;
}

/** What reaches the network. */
export interface Network {
  resolve(host: string): Promise<readonly LookupAddress[]>;
  /** Sends by a module of Node. `lookup` returns the addresses that were checked, and no others. */
  request(
    url: URL,
    options: RequestOptions & { lookup: LookupFunction },
    responded: (response: IncomingMessage) => void,
  ): ClientRequest;
}

const nodeNetwork = async (protocol: string): Promise<Network> => {
  const { lookup } = await import("node:dns/promises");
  const { request } = protocol === "https:" ? await import("node:https") : await import("node:http");
  return { resolve: (host) => lookup(host, { all: true }), request };
};

/** A response whose body is longer than this is cut off, with its connection. */
const longestDiscarded = 65_536;

/**
 * Posts a request and returns the head of the response. The host is resolved once, all of its addresses are checked, and
 * the connection goes to one of these: a name that is resolved again could point at another machine by then.
 */
export async function postRequest(
  { url, headers, body, signal }: PostRequest,
  allowPrivate: boolean,
  given?: Network,
): Promise<Pick<IncomingMessage, "headers"> & { readonly status: number }> {
  const network = given ?? (await nodeNetwork(url.protocol));
  const addresses = await addressesOf(url, network);
  if (!allowPrivate && !addresses.every(({ address }) => isPublicAddress(address)))
    throw new InvalidOperationError(privateAddress(url.host));
  signal.throwIfAborted();
  const lookup: LookupFunction = (_host, { all }, found) =>
    all ? found(null, [...addresses]) : found(null, addresses[0]!.address, addresses[0]!.family);
  const length = Buffer.byteLength(body);
  return new Promise((resolve, reject) => {
    const options = { method: "POST", headers: { ...headers, "content-length": length }, signal, lookup };
    const request = network.request(url, options, (response) => {
      discard(response);
      resolve({ status: response.statusCode ?? 0, headers: response.headers });
    });
    request.on("error", reject); // stays: an error after the end must not end the process
    request.end(body);
  });
}

export const privateAddress = (host: string): string =>
  `${host} is, or resolves to, a private, loopback or link-local address. Set allowPrivateAddresses to send there.`;

async function addressesOf({ hostname }: URL, network: Network): Promise<readonly LookupAddress[]> {
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const family = isIP(host);
  return family === 0 ? network.resolve(host) : [{ address: host, family }];
}

/** The connection is kept for the next request, if that costs little. */
function discard(response: IncomingMessage): void {
  let length = 0;
  response.on("error", () => {});
  response.on("data", (chunk: Buffer) => {
    length += chunk.byteLength;
    if (length > longestDiscarded) response.destroy();
  });
}
