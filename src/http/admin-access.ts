import { ArgumentRangeError } from "../errors.js";
import { requireDuration } from "../queue/arguments.js";
import { secretProblem, type TokenForm } from "./bearer-tokens.js";

/** The settings of a diagnostics API that do not depend on where it runs. */
export interface AdminSettings {
  /** How long a request may wait for the database, and for the secret store, before the answer is 503. 10 s by default. */
  readonly callMs?: number;
  /** How long fetched tokens are used before they are fetched again. 5 minutes by default. */
  readonly tokensMaxAgeMs?: number;
  /** Requests that one instance answers in a minute; those without a token are counted apart. 1,200 by default. */
  readonly requestsPerMinute?: number;
}

/** The defaults of a diagnostics API. */
export const adminDefaults = {
  callMs: 10_000,
  tokensMaxAgeMs: 5 * 60_000,
  requestsPerMinute: 1_200,
} as const;

export function checkAdminSettings(given: AdminSettings): Required<AdminSettings> {
  const { callMs, tokensMaxAgeMs, requestsPerMinute } = { ...adminDefaults, ...given };
  for (const [name, ms] of Object.entries({ callMs, tokensMaxAgeMs })) requireDuration(ms, name);
  if (!Number.isSafeInteger(requestsPerMinute) || requestsPerMinute < 1)
    throw new ArgumentRangeError(
      `requestsPerMinute must be a whole number, 1 or more, not ${String(requestsPerMinute)}.`,
    );
  return { callMs, tokensMaxAgeMs, requestsPerMinute };
}

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
export const nameIn = (token: string): string => token.slice(0, token.indexOf(":"));

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
