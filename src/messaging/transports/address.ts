import { InvalidArgumentError } from "../../errors.js";

/** Where receivers listen, unless their prefix is another. */
export const receivePath = "/_rf/receive";
/** The gRPC method of receivers, from `proto/rf-receiver.proto`. */
export const grpcPath = "/RFReceiver/Receive";

/** The schemes that this package serves, by the names that a configuration uses. */
export const transportNames = ["http", "https", "grpc", "grpcs", "unix", "pipe", "inprocess"] as const;
export type TransportName = (typeof transportNames)[number];

/** What is known of a destination before it is completed: an address, a transport by name, or both. */
export interface AddressParts {
  readonly address?: string | undefined;
  readonly transport?: TransportName | undefined;
}

/**
 * The full address of a service. `inventory:5001` gets the scheme of its transport. A service with no address gets the
 * conventional one, where its transport has one.
 *
 * @example
 * completeAddress("email", { transport: "pipe" }, "http") // "pipe://rf-email"
 */
export function completeAddress(
  serviceId: string,
  { address, transport }: AddressParts,
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
