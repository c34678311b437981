export interface RequestLimits {
  /** Whether this client has sent too many wrong tokens within this minute. */
  isBlocked(client: string): boolean;
  /** A client has sent a wrong token. */
  failed(client: string): void;
  /** Counts a request. Returns whether there may be one more in this minute. */
  take(kind: RequestKind): boolean;
  /** How long the present minute lasts. */
  secondsLeft(): number;
}

/** Requests with a right token are counted apart, so that others cannot use up their number. */
export type RequestKind = "with token" | "without token";

export interface LimitOptions {
  readonly requestsPerMinute: number;
  readonly clock: () => Date;
}

const minuteMs = 60_000;
/** Wrong tokens of one client in a minute. */
export const mostFailures = 10;
/** Clients whose failures are remembered. Beyond it the first one is forgotten. */
const mostClients = 10_000;

/** What one instance counts within the present minute. */
export function requestLimits({ requestsPerMinute, clock }: LimitOptions): RequestLimits {
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
    isBlocked(client) {
      beginMinute();
      return (failures.get(client) ?? 0) >= mostFailures;
    },
    failed(client) {
      beginMinute();
      failures.set(client, (failures.get(client) ?? 0) + 1);
      if (failures.size > mostClients) failures.delete(failures.keys().next().value!);
    },
    take(kind) {
      beginMinute();
      return ++taken[kind] <= requestsPerMinute;
    },
    secondsLeft: () => Math.max(1, Math.ceil((endsAt - clock().getTime()) / 1_000)),
  };
}
