import { maxNameLength, refuseUnknown } from "../queue/arguments.js";
import type { Problems } from "./check-service.js";
import { combinedMessages } from "./messages.js";
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

/**
 * Resolves the destinations of a service, and adds their problems and those of its sources: names, addresses, transports
 * and secrets that cannot work. `close` closes the transports that are made here.
 */
export function serviceDestinations(options: AnyServiceOptions, problems: Problems) {
  const all = new Map<string, ServiceDestination>();
  let transports: Transports | undefined;
  problems.check(() => {
    transports = createTransports(options.transports);
  });
  for (const [id, given] of Object.entries(options.destinations ?? {})) {
    const what = `destinations.${id}`;
    problems.checkServiceId(id, `the destination "${id}"`);
    checkTopics(id, options, problems);
    problems.check(() => refuseUnknown(given, ["address", "secrets", "transport"], what));
    problems.check(() => {
      const resolved = transports?.resolve(id, given ?? {});
      if (resolved !== undefined) all.set(id, { serviceId: id, secrets: given.secrets ?? [], ...resolved });
    }, `${what}.address: `);
    checkSecrets(what, given, all.get(id), problems);
  }
  for (const [id, source] of Object.entries(options.sources ?? {})) {
    problems.checkServiceId(id, `the source "${id}"`);
    problems.check(() => refuseUnknown(source, ["secrets", "retryWindowMs"], `sources.${id}`));
    problems.add(...sharedSecretProblems(source?.secrets, `sources.${id}.secrets`));
  }
  return { all, close: async () => transports?.close() };
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
