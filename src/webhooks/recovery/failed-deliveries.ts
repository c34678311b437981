import type { GithubDelivery } from "./github-delivery.js";

export interface FailedDeliveries {
  /** To be asked for now, the oldest event first: the newest attempt of each. */
  readonly due: readonly GithubDelivery[];
  /** Events that were tried again lately. */
  readonly later: number;
}

const shortestWaitMs = 60_000;
const longestWaitMs = 6 * 3_600_000;

/**
 * Finds the events of which no attempt succeeded. An event is tried again when its last attempt is as old as the time
 * that its attempts took before, so that a long outage costs few requests and a refused event is not asked for all the time.
 */
export function failedDeliveries(
  deliveries: readonly GithubDelivery[],
  { now, backOff }: { readonly now: number; readonly backOff: boolean },
): FailedDeliveries {
  const events = new Map<string, GithubDelivery[]>();
  for (const one of deliveries) events.set(one.guid, [...(events.get(one.guid) ?? []), one]);
  const failed = [...events.values()]
    .filter((attempts) => !attempts.some(({ isOk }) => isOk))
    .map((attempts) => attempts.toSorted((one, other) => one.at - other.at))
    .sort(([one], [other]) => one!.at - other!.at);
  const due = failed.filter((attempts) => !backOff || isDue(attempts[0]!.at, attempts.at(-1)!.at, now));
  return { due: due.map((attempts) => attempts.at(-1)!), later: failed.length - due.length };
}

const isDue = (first: number, last: number, now: number): boolean =>
  now - last >= Math.min(longestWaitMs, Math.max(shortestWaitMs, last - first));
