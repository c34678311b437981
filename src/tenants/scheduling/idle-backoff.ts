import { type Fifo, fifo } from "../../base/fifo.js";

/** Tenants whose last poll found nothing. Each is polled again after a delay that doubles with every empty poll. */
export interface IdleBackoff {
  /** A poll found nothing: the tenant's delay begins. */
  foundNothing(id: string): void;
  /** A poll found work: the tenant's next delay is the shortest again. */
  foundWork(id: string): void;
  /** Tenants whose delay began in an earlier run and has not ended. */
  readonly fromEarlierRuns: ReadonlySet<string>;
  /** Removes and returns the tenant whose delay ended first; undefined while no delay has ended. */
  take(): string | undefined;
  /** The time until the next delay ends, 0 when one has ended; undefined without idle tenants. */
  nextMs(): number | undefined;
}

export interface IdleBackoffOptions {
  /** The delay after the first empty poll. It doubles with each empty poll in a row … */
  readonly firstMs: number;
  /** … up to this. */
  readonly longestMs: number;
  readonly now: () => number;
  /** Delays of earlier runs, kept for later ones. Without it a run begins with no idle tenants. */
  readonly history?: IdleHistory;
}

/** By tenant, in the order of their polls. */
export type IdleHistory = Map<string, IdlePeriod>;

interface IdlePeriod {
  readonly id: string;
  /** Doublings of the first delay. */
  readonly doublings: number;
  readonly until: number;
}

/** For these tenants; others in the history belong to other runs. */
export function idleBackoff(
  ids: readonly string[],
  { firstMs, longestMs, now, history = new Map() }: IdleBackoffOptions,
): IdleBackoff {
  /** One list per number of doublings: within it, the tenant that was polled first is also due first. */
  const lists: Fifo<IdlePeriod>[] = [];
  const add = (period: IdlePeriod): void => {
    lists[period.doublings] ??= fifo();
    lists[period.doublings]!.add(period);
  };
  const fromEarlierRuns = forgetOld(history, ids, now(), longestMs);
  for (const period of fromEarlierRuns.values()) add(period);

  const earliest = (): Fifo<IdlePeriod> | undefined => {
    let found: Fifo<IdlePeriod> | undefined;
    for (const list of lists) {
      const period = list?.first();
      if (period !== undefined && period.until < (found?.first()?.until ?? Number.POSITIVE_INFINITY))
        found = list;
    }
    return found;
  };

  return {
    foundNothing(id) {
      const before = history.get(id);
      const isLongest = before !== undefined && firstMs * 2 ** before.doublings >= longestMs;
      const doublings = before === undefined ? 0 : before.doublings + (isLongest ? 0 : 1);
      const period = { id, doublings, until: now() + Math.min(longestMs, firstMs * 2 ** doublings) };
      history.delete(id); // a map keeps the order of first insertion
      history.set(id, period);
      add(period);
    },
    foundWork: (id) => void history.delete(id),
    fromEarlierRuns: new Set(fromEarlierRuns.keys()),
    take() {
      const list = earliest();
      if (list === undefined || list.first()!.until > now()) return undefined;
      return list.take()!.id;
    },
    nextMs() {
      const period = earliest()?.first();
      return period === undefined ? undefined : Math.max(0, period.until - now());
    },
  };
}

/**
 * Returns the periods of these tenants that have not ended. Deletes periods that ended long ago: such a tenant was
 * removed, or no run had time for it.
 */
function forgetOld(
  history: IdleHistory,
  ids: readonly string[],
  now: number,
  longestMs: number,
): ReadonlyMap<string, IdlePeriod> {
  const current = new Map<string, IdlePeriod>();
  if (history.size === 0) return current;
  const own = new Set(ids);
  for (const [id, period] of history) {
    if (period.until + longestMs < now) history.delete(id);
    else if (period.until > now && own.has(id)) current.set(id, period);
  }
  return current;
}
