import { maxNameLength, refuseUnknown } from "../queue/arguments.js";
import { chooseTransport, needsSecret, schemeOf } from "./choose-transport.js";
import { problemOf } from "./problem-of.js";
import { serviceIdProblem } from "./service-id.js";
import type { AnyServiceOptions, DestinationOptions } from "./service-options.js";
import { sharedSecretProblems } from "./signature.js";
import { topicOf } from "./stored-message.js";
import type { Transport } from "./transport.js";

/** Problems of destinations and sources: names, addresses, transports, secrets. */
export function checkDestinations(
  { destinations = {}, sources = {}, transports = [] }: AnyServiceOptions,
  endpoints: Iterable<string>,
): readonly string[] {
  const longest = [...endpoints].sort((a, b) => b.length - a.length)[0] ?? "";
  return [
    ...Object.entries(destinations).flatMap(([id, destination]) => [
      ...serviceIdProblem(id, `the destination "${id}"`),
      ...checkLength(id, longest),
      ...checkDestination(id, destination, transports),
    ]),
    ...Object.entries(sources).flatMap(([id, source]) => {
      const unknown = problemOf(() =>
        refuseUnknown(source ?? {}, ["secrets", "retryWindowMs"], `sources.${id}`),
      );
      return [
        ...serviceIdProblem(id, `the source "${id}"`),
        ...unknown,
        ...sharedSecretProblems(source?.secrets, `sources.${id}.secrets`),
      ];
    }),
  ];
}

function checkLength(id: string, endpoint: string): readonly string[] {
  const { length } = topicOf(id, endpoint);
  if (length <= maxNameLength) return [];
  return [
    `the destination "${id}" and the endpoint "${endpoint}" have ${length} characters together; at most ${maxNameLength} can be stored`,
  ];
}

/** An address may hold a password, so it is never quoted. */
function checkDestination(
  id: string,
  destination: DestinationOptions,
  transports: readonly Transport[],
): readonly string[] {
  const what = `destinations.${id}`;
  const unknown = problemOf(() => refuseUnknown(destination, ["address", "secrets", "transport"], what));
  const { address, secrets } = destination ?? {};
  if (typeof address !== "string" || !URL.canParse(address))
    return [...unknown, `${what}.address must be an absolute URL, such as https://host:port/_rf/receive`];
  const transport = chooseTransport(destination, transports);
  const unserved =
    transport === undefined
      ? [`${what}.address: no transport serves "${schemeOf(address)}"`]
      : problemOf(() => transport.check?.(address)).map((problem) => `${what}.address: ${problem}`);
  const { username, password } = new URL(address);
  const credentials =
    username + password === "" ? [] : [`${what}.address must not have a user name or a password`];
  const unsigned =
    secrets === undefined && needsSecret(address)
      ? [`${what} has no secret; give secrets: [the text that both services share]`]
      : secrets === undefined
        ? []
        : sharedSecretProblems(secrets, `${what}.secrets`);
  return [...unknown, ...unserved, ...credentials, ...unsigned];
}
