import { maxNameLength, problemOf, refuseUnknown } from "../queue/arguments.js";
import { combinedMessages, serviceIdProblem } from "./check-service.js";
import type { AnyServiceOptions, DestinationOptions } from "./service-options.js";
import { sharedSecretProblems } from "./sign-envelope.js";
import { topicOf } from "./stored-message.js";
import { schemeOf } from "./transports/address.js";
import type { Transport, TransportDestination } from "./transports/transport.js";
import { createTransports, type Transports } from "./transports/transports.js";

/** A destination with its full address and the transport that serves it. */
export interface ServiceDestination extends TransportDestination {
  readonly transport: Transport;
}

interface ServiceDestinations {
  readonly all: ReadonlyMap<string, ServiceDestination>;
  /** Names, addresses, transports and secrets that cannot work. */
  readonly problems: readonly string[];
  /** Closes the transports that the service has made. */
  close(): Promise<void>;
}

/** Resolves the destinations of a service, and collects what is wrong with them and with its sources. */
export function serviceDestinations(options: AnyServiceOptions): ServiceDestinations {
  const { destinations, sources } = options;
  const all = new Map<string, ServiceDestination>();
  const problems: string[] = [];
  let transports: Transports | undefined;
  problems.push(
    ...problemOf(() => {
      transports = createTransports(options.transports);
    }),
  );
  for (const [id, given] of Object.entries(destinations ?? {})) {
    const what = `destinations.${id}`;
    problems.push(
      ...serviceIdProblem(id, `the destination "${id}"`),
      ...topicTooLong(id, options),
      ...problemOf(() => refuseUnknown(given, ["address", "secrets", "transport"], what)),
      ...problemOf(() => {
        const { address, transport } = transports?.resolve(id, given ?? {}) ?? {};
        if (address === undefined || transport === undefined) return; // the transports are a problem already
        all.set(id, { serviceId: id, address, transport, secrets: given.secrets ?? [] });
      }).map((problem) => `${what}.address: ${problem}`),
      ...secretProblems(what, given, all.get(id)),
    );
  }
  for (const [id, source] of Object.entries(sources ?? {})) {
    problems.push(
      ...serviceIdProblem(id, `the source "${id}"`),
      ...problemOf(() => refuseUnknown(source, ["secrets", "retryWindowMs"], `sources.${id}`)),
      ...sharedSecretProblems(source?.secrets, `sources.${id}.secrets`),
    );
  }
  return { all, problems, close: async () => transports?.close() };
}

/** A direct call within the process: nobody in between could change or forge a message. */
const inProcessScheme = "inprocess:";

function secretProblems(
  what: string,
  given: DestinationOptions,
  resolved: ServiceDestination | undefined,
): readonly string[] {
  if (given?.secrets !== undefined) return sharedSecretProblems(given.secrets, `${what}.secrets`);
  if (resolved !== undefined && schemeOf(resolved.address) === inProcessScheme) return [];
  return [`${what} has no secret; give secrets: [the text that both services share]`];
}

function topicTooLong(id: string, { messages }: AnyServiceOptions): readonly string[] {
  const longest = [...combinedMessages(messages).keys()].sort((a, b) => b.length - a.length)[0] ?? "";
  const { length } = topicOf(id, longest);
  if (length <= maxNameLength) return [];
  return [
    `the destination "${id}" and the endpoint "${longest}" have ${length} characters together; at most ${maxNameLength} can be stored`,
  ];
}
