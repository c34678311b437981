import { type Fifo, fifo } from "../../base/concurrency.js";
import { defaultPollTimeoutMs } from "../connections/tenant-stores.js";
import type { Selection, SelectionStrategy } from "./selection.js";

/** Idle tenants that are polled after each turn with work: a poll costs one round trip, such a turn some fifty messages. */
const pollsPerTurn = 8;
/** A turn that still runs this long after `pollTimeoutMs` is past its poll, so it has found work. */
const pollGraceMs = 500;
/** The first and the longest delay of the idle back-off. */
export const idleDelays = { firstMs: 500, longestMs: 5_000 } as const;

interface FairRun {
  readonly random: () => number;
  readonly now: () => number;
  /** The longest delay of the idle back-off. */
  readonly longestMs: number;
  /** The longest time of a poll. */
  readonly pollTimeoutMs?: number | undefined;
  /** The idle back-off of earlier runs; without it, every run starts without idle tenants. */
  readonly history?: IdleHistory;
}

/**
 * The default, for functions. It remembers nothing between runs, and each run polls the tenants in a new random order, so
 * that no tenant is always the last when time runs out. Every tenant is polled once. Tenants with work wait in a fifo, so
 * between two turns of one of them every other has had a turn. While there is work, idle tenants are polled again after
 * 0.5 s, then after twice as long each time, up to 5 s. Where tenants with work wait for a slot, eight idle tenants are
 * polled after each turn with work.
 */
export const fair = (
  random: () => number = Math.random,
  now: () => number = () => performance.now(),
): SelectionStrategy => ({
  sequential: false,
  begin: (ids, pollTimeoutMs) =>
    fairSelection(ids, { random, now, longestMs: idleDelays.longestMs, pollTimeoutMs }),
});

export function fairSelection(
  ids: readonly string[],
  { random, now, pollTimeoutMs = defaultPollTimeoutMs, ...run }: FairRun,
): Selection {
  const longestPollMs = pollTimeoutMs + pollGraceMs;
  const idle = idleBackoff(ids, { ...run, firstMs: idleDelays.firstMs, now });
  const first = fifo(
    shuffled(
      ids.filter((id) => !idle.fromEarlierRuns.has(id)),
      random,
    ),
  );
  const busy = fifo<string>();
  /** Running turns by their start, the oldest first. */
  const running = new Map<string, number>();
  /** Running turns of tenants that had work in their last turn. */
  const working = new Set<string>();
  let pollsLeft = 0;

  /** The time until a running turn is known to have found work; undefined when none runs. */
  const untilWorkIsKnownMs = (): number | undefined => {
    if (working.size > 0) return 0;
    const [oldest] = running.values();
    return oldest === undefined ? undefined : Math.max(0, oldest + longestPollMs - now());
  };
  const nextIdle = (): string | undefined => {
    if (busy.size() === 0) return untilWorkIsKnownMs() === 0 ? idle.take() : undefined; // no busy tenant waits for this slot
    const id = pollsLeft > 0 ? idle.take() : undefined;
    if (id !== undefined) pollsLeft--;
    return id;
  };
  const nextBusy = (): string | undefined => {
    const id = busy.take();
    if (id !== undefined) working.add(id);
    return id;
  };

  return {
    next() {
      const id = first.take() ?? nextIdle() ?? nextBusy();
      if (id !== undefined) running.set(id, now());
      return id;
    },
    ended(id, end) {
      running.delete(id);
      working.delete(id);
      if (end === "empty") idle.foundNothing(id);
      if (end !== "more") return;
      idle.foundWork(id);
      busy.add(id);
      // Not added up: otherwise idle tenants whose delays end together would all be polled before the busy ones.
      pollsLeft = pollsPerTurn;
    },
    nextMs() {
      const [idleMs, untilWorkMs] = [idle.nextMs(), untilWorkIsKnownMs()];
      return idleMs === undefined || untilWorkMs === undefined ? undefined : Math.max(idleMs, untilWorkMs);
    },
  };
}

/**
 * For jobs other than dispatching: every tenant has one turn, and tenants with more to do wait in a fifo for the next. A
 * tenant with nothing to do has no second turn, however long the others take.
 */
export const untilDone = (random: () => number = Math.random): SelectionStrategy => ({
  sequential: false,
  begin(ids) {
    const waiting = fifo(shuffled(ids, random));
    return {
      next: () => waiting.take(),
      ended(id, end) {
        if (end === "more") waiting.add(id);
      },
    };
  },
});

function shuffled(ids: readonly string[], random: () => number): string[] {
  const all = [...ids];
  for (let index = all.length - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [all[index], all[other]] = [all[other]!, all[index]!];
  }
  return all;
}

/** Tenants whose last poll found nothing. Each is polled again after a delay that doubles with every empty poll. */
interface IdleBackoff {
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

interface IdleBackoffOptions {
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
function idleBackoff(
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
