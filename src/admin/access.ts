import { secretProblem, type TokenForm } from "../http/bearer-tokens.js";
import type { Read } from "../http/fields.js";
import { decoded, type PlainRequest } from "../http/plain.js";
import { isOperatorName, operatorRule } from "./page/key-text.js";

/** The name may not look like a part of the secret in a log: it has neither a colon nor a slash. */
const namePattern = /^[A-Za-z0-9._@-]{1,64}$/;

/** `name:secret`: the name is recorded with everything that is done by it. */
export const adminTokens: TokenForm = {
  owner: "admin",
  problemOf(token) {
    const colon = token.indexOf(":");
    if (colon < 1) return "is not of the form name:secret";
    if (!namePattern.test(token.slice(0, colon)))
      return "has a name of more than 64 characters, or with others than letters, digits and ._@-";
    const problem = secretProblem(token.slice(colon + 1));
    return problem && `has a secret that ${problem}`;
  },
};

/** Whose token it is. */
const nameIn = (token: string): string => token.slice(0, token.indexOf(":"));

const header = "x-oncebox-by";

/** Who asks, for the records: the token's name, and the person that the request names, who is not authenticated. */
export function operatorOf({ headers }: PlainRequest, token: string): Read<string> {
  const given = headers.get(header);
  if (given === null || given === "") return { value: nameIn(token) };
  const person = decoded(given)?.trim() ?? "";
  if (!isOperatorName(person))
    return {
      refusal: {
        code: "InvalidField",
        message: `${header} is percent-encoded, and ${operatorRule}.`,
        field: header,
      },
    };
  return { value: `${nameIn(token)} (${person})` };
}

/** Requests with a right token are counted apart, so that others cannot use up their number. */
export type RequestKind = "with token" | "without token";

const minuteMs = 60_000;
/** Wrong tokens of one client in a minute. */
const maxFailures = 10;
/** Clients whose failures are remembered. Beyond it the first one is forgotten. */
const maxClients = 10_000;

/** What one instance counts within the present minute. */
export function requestLimits(requestsPerMinute: number, clock: () => Date) {
  let endsAt = 0;
  const failures = new Map<string, number>();
  const taken = { "with token": 0, "without token": 0 };
  const beginMinute = (): void => {
    const now = clock().getTime();
    if (now < endsAt && endsAt - now <= minuteMs) return;
    endsAt = now + minuteMs;
    failures.clear();
    taken["with token"] = 0;
    taken["without token"] = 0;
  };
  return {
    /** Whether this client has sent too many wrong tokens within this minute. */
    isBlocked(client: string): boolean {
      beginMinute();
      return (failures.get(client) ?? 0) >= maxFailures;
    },
    /** A client has sent a wrong token. */
    failed(client: string): void {
      beginMinute();
      failures.set(client, (failures.get(client) ?? 0) + 1);
      if (failures.size > maxClients) failures.delete(failures.keys().next().value!);
    },
    /** Counts a request. Returns whether there may be one more in this minute. */
    take(kind: RequestKind): boolean {
      beginMinute();
      return ++taken[kind] <= requestsPerMinute;
    },
    /** How long the present minute lasts. */
    secondsLeft: () => Math.max(1, Math.ceil((endsAt - clock().getTime()) / 1_000)),
  };
}
