import { InvalidArgumentError } from "../errors.js";
import { maxNameLength, refuseUnknown } from "../queue/arguments.js";
import type { Problems } from "./check-service.js";
import { combinedMessages } from "./messages.js";
import type { AnyServiceOptions, DestinationOptions } from "./service-options.js";
import { sharedSecretProblems } from "./sign-envelope.js";
import { topicOf } from "./stored-message.js";
import { completeAddress, schemeOf, type TransportName, transportNames } from "./transports/address.js";
import { type GrpcTransportOptions, grpcTransport } from "./transports/grpc-transport.js";
import { type HttpTransportOptions, httpTransport } from "./transports/http-transport.js";
import { type InProcessTransport, inProcessTransport } from "./transports/in-process-transport.js";
import type { Transport, TransportDestination } from "./transports/transport.js";

/** Options of the transports to a service's destinations. */
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

/** A destination with its full address and the transport that serves it. */
export interface ServiceDestination extends TransportDestination {
  readonly transport: Transport;
}

/**
 * Resolves the destinations of a service, and adds their problems and those of its sources: names, addresses, transports
 * and secrets that cannot work. `close` closes the transports that are made here.
 */
export function serviceDestinations(options: AnyServiceOptions, problems: Problems) {
  const all = new Map<string, ServiceDestination>();
  let transports: ReturnType<typeof createTransports> | undefined;
  problems.check(() => {
    transports = createTransports(options.transports);
  });
  for (const [id, given] of Object.entries(options.destinations ?? {})) {
    const what = `destinations.${id}`;
    problems.checkServiceId(id, `the destination "${id}"`);
    checkTopics(id, options, problems);
    problems.check(() => refuseUnknown(given, ["address", "secrets", "transport", "endpoints"], what));
    if (given?.endpoints !== undefined) checkEndpoints(what, given.endpoints, options, problems);
    problems.check(() => {
      const resolved = transports?.resolve(id, given ?? {});
      if (resolved !== undefined) all.set(id, { serviceId: id, secrets: given.secrets ?? [], ...resolved });
    }, `${what}.address: `);
    checkSecrets(what, given, all.get(id), problems);
  }
  for (const [id, source] of Object.entries(options.sources ?? {})) {
    problems.checkServiceId(id, `the source "${id}"`);
    problems.check(() => refuseUnknown(source, ["secrets", "endpoints", "retryWindowMs"], `sources.${id}`));
    checkEndpoints(`sources.${id}`, source?.endpoints, options, problems);
    problems.add(...sharedSecretProblems(source?.secrets, `sources.${id}.secrets`));
  }
  return { all, close: async () => transports?.close() };
}

/** A source without a list is refused: whoever wants all endpoints for it writes so. */
function checkEndpoints(
  what: string,
  given: unknown,
  { messages }: AnyServiceOptions,
  problems: Problems,
): void {
  if (given === "*") return;
  if (!Array.isArray(given)) {
    problems.add(
      `${what}.endpoints must be a list of the endpoints that it may call, or "*" for all of them`,
    );
    return;
  }
  const known = [...combinedMessages(messages).keys()];
  for (const name of given.filter((one) => !known.includes(one as string)))
    problems.add(`${what}.endpoints: no message ${JSON.stringify(name)}. Known: ${known.join(", ")}`);
}

/** A direct call within the process: nobody in between could change or forge a message. */
const inProcessScheme = "inprocess:";

function checkSecrets(
  what: string,
  given: DestinationOptions,
  resolved: ServiceDestination | undefined,
  problems: Problems,
): void {
  if (given?.secrets !== undefined) problems.add(...sharedSecretProblems(given.secrets, `${what}.secrets`));
  else
    problems.unless(
      resolved !== undefined && schemeOf(resolved.address) === inProcessScheme,
      `${what} has no secret; give secrets: [the text that both services share]`,
    );
}

function checkTopics(id: string, { messages }: AnyServiceOptions, problems: Problems): void {
  const longest = [...combinedMessages(messages).keys()].sort((a, b) => b.length - a.length)[0] ?? "";
  const { length } = topicOf(id, longest);
  problems.unless(
    length <= maxNameLength,
    `the destination "${id}" and the endpoint "${longest}" have ${length} characters together; at most ${maxNameLength} can be stored`,
  );
}

const optionNames = ["defaultTransport", "http", "grpc", "inProcess", "own"];

/** All transports of a service, by the schemes of their addresses. */
export function createTransports(options: TransportsOptions = {}) {
  refuseUnknown(options, optionNames, "transports");
  const { defaultTransport = "http", own = [], inProcess = inProcessTransport() } = options;
  requireTransportName(defaultTransport, "transports.defaultTransport");
  const made = [httpTransport(options.http), grpcTransport(options.grpc)];
  const all = [...made, inProcess, ...own];
  const byScheme = new Map(
    all.flatMap((transport) => transport.schemes.map((scheme) => [scheme, transport])),
  );

  /** Throws for an unknown scheme. */
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
    /** The full address and the transport of a destination. Throws for one that cannot work. */
    resolve(
      serviceId: string,
      { address, transport }: Pick<DestinationOptions, "address" | "transport">,
    ): { readonly address: string; readonly transport: Transport } {
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
    /** Ends all calls and connections. Transports that were given in code are left open: other services may share them. */
    async close(): Promise<void> {
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
