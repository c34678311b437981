import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { completeAddress, schemeOf, type TransportName, transportNames } from "./address.js";
import { type GrpcTransportOptions, grpcTransport } from "./grpc-transport.js";
import { type HttpTransportOptions, httpTransport } from "./http-transport.js";
import { type InProcessTransport, inProcessTransport } from "./in-process-transport.js";
import type { Transport } from "./transport.js";

export interface TransportsOptions {
  /** The transport of destinations that name none and whose address has no scheme: `http` by default. */
  readonly defaultTransport?: TransportName;
  readonly http?: HttpTransportOptions;
  readonly grpc?: GrpcTransportOptions;
  /** The transport that services in this process share. */
  readonly inProcess?: InProcessTransport;
  /** Transports of your own. One for a scheme of this package replaces it. */
  readonly own?: readonly Transport[];
}

export interface Transports {
  /** Throws for an unknown scheme. */
  transportFor(address: string): Transport;
  /** The full address and the transport of a destination. Throws, when the service is built, for one that cannot work. */
  resolve(
    serviceId: string,
    options: {
      /** With a scheme (`https://host:port/_rf/receive`) or without one (`host:port`). */
      readonly address?: string | undefined;
      /** By name, or in code a transport for this destination only. */
      readonly transport?: TransportName | Transport | undefined;
    },
  ): { readonly address: string; readonly transport: Transport };
  /** Ends all calls and connections. Transports that were given in code are left open: other services may share them. */
  close(): Promise<void>;
}

const optionNames = ["defaultTransport", "http", "grpc", "inProcess", "own"];

/**
 * All transports of a service, by the schemes of their addresses.
 *
 * @example
 * const transports = createTransports({ defaultTransport: "https" });
 * const { address, transport } = transports.resolve("inventory", { address: "grpc://inventory:5001" });
 */
export function createTransports(options: TransportsOptions = {}): Transports {
  refuseUnknown(options, optionNames, "createTransports");
  const { defaultTransport = "http", own = [], inProcess = inProcessTransport() } = options;
  requireTransportName(defaultTransport, "createTransports: defaultTransport");
  const made = [httpTransport(options.http), grpcTransport(options.grpc)];
  const all = [...made, inProcess, ...own];
  const byScheme = new Map(
    all.flatMap((transport) => transport.schemes.map((scheme) => [scheme, transport])),
  );

  function transportFor(address: string): Transport {
    const scheme = schemeOf(address);
    const found = byScheme.get(scheme);
    if (found !== undefined) return found;
    throw new InvalidArgumentError(
      `Unknown scheme ${scheme}// of an address. Known: ${[...byScheme.keys()].join("// ")}//`,
    );
  }

  return {
    transportFor,
    resolve(serviceId, { address, transport }) {
      if (isTransport(transport)) {
        const full = address ?? `${transport.schemes[0] ?? "own:"}//${encodeURIComponent(serviceId)}`;
        transport.check?.(full);
        return { address: full, transport };
      }
      if (transport !== undefined) requireTransportName(transport, `Destination ${serviceId}: transport`);
      const full = completeAddress(serviceId, address, transport, defaultTransport);
      const found = transportFor(full);
      found.check?.(full);
      return { address: full, transport: found };
    },
    async close() {
      await Promise.all(made.map((transport) => transport.close()));
    },
  };
}

const isTransport = (value: unknown): value is Transport =>
  typeof value === "object" && value !== null && typeof (value as { send?: unknown }).send === "function";

function requireTransportName(value: unknown, name: string): void {
  if ((transportNames as readonly unknown[]).includes(value)) return;
  throw new InvalidArgumentError(
    `${name} must be one of ${transportNames.join(", ")}, not ${String(value)}.`,
  );
}
