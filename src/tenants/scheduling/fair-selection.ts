import { type Fifo, fifo } from "../../base/async.js";
import { defaultPollTimeoutMs } from "../connections/tenant-stores.js";
import type { Selection, SelectionStrategy } from "./selection.js";

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

/** The first and the longest delay of the idle back-off. */
export const idleDelays = { firstMs: 500, longestMs: 5_000 } as const;
/** Idle tenants that are polled after each turn with work: a poll costs one round trip, such a turn some fifty messages. */
const pollsPerTurn = 8;
/** A turn that still runs this long after `pollTimeoutMs` is past its poll, so it has found work. */
const pollGraceMs = 500;

interface FairRun {
  readonly random: () => number;
  readonly now: () => number;
  /** The longest delay of the idle back-off. */
  readonly longestMs: number;
  /** The longest time of a poll. */
  readonly pollTimeoutMs?: number | undefined;
  /** The idle back-off of earlier runs, kept for later ones; without it, every run starts without idle tenants. */
  readonly history?: IdleHistory;
}

export function fairSelection(
  ids: readonly string[],
  { random, now, longestMs, pollTimeoutMs = defaultPollTimeoutMs, history = new Map() }: FairRun,
): Selection {
  const longestPollMs = pollTimeoutMs + pollGraceMs;
  const idle = new IdleTenants(ids, history, longestMs, now);
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

/** By tenant, in the order of their polls. */
export type IdleHistory = Map<string, IdlePeriod>;

interface IdlePeriod {
  readonly id: string;
  /** Doublings of the first delay. */
  readonly doublings: number;
  readonly until: number;
}

/** Tenants whose last poll found nothing. Each is polled again after a delay that doubles with every empty poll. */
class IdleTenants {
  /** Tenants whose delay began in an earlier run and has not ended. */
  readonly fromEarlierRuns: ReadonlyMap<string, IdlePeriod>;
  /** One list per number of doublings: within it, the tenant that was polled first is also due first. */
  private readonly lists: Fifo<IdlePeriod>[] = [];

  /** For these tenants; others in the history belong to other runs. */
  constructor(
    ids: readonly string[],
    private readonly history: IdleHistory,
    private readonly longestMs: number,
    private readonly now: () => number,
  ) {
    this.fromEarlierRuns = forgetOld(history, ids, now(), longestMs);
    for (const period of this.fromEarlierRuns.values()) this.add(period);
  }

  /** A poll found nothing: the tenant's delay begins. */
  foundNothing(id: string): void {
    const delayMs = (doublings: number) => Math.min(this.longestMs, idleDelays.firstMs * 2 ** doublings);
    const before = this.history.get(id)?.doublings ?? -1;
    const isLongest = before >= 0 && delayMs(before) >= this.longestMs;
    const doublings = isLongest ? before : before + 1;
    const period = { id, doublings, until: this.now() + delayMs(doublings) };
    this.history.delete(id); // a map keeps the order of first insertion
    this.history.set(id, period);
    this.add(period);
  }

  /** A poll found work: the tenant's next delay is the shortest again. */
  foundWork(id: string): void {
    this.history.delete(id);
  }

  /** Removes and returns the tenant whose delay ended first; undefined while no delay has ended. */
  take(): string | undefined {
    const list = this.earliest();
    if (list === undefined || list.first()!.until > this.now()) return undefined;
    return list.take()!.id;
  }

  /** The time until the next delay ends, 0 when one has ended; undefined without idle tenants. */
  nextMs(): number | undefined {
    const period = this.earliest()?.first();
    return period === undefined ? undefined : Math.max(0, period.until - this.now());
  }

  private add(period: IdlePeriod): void {
    this.lists[period.doublings] ??= fifo();
    this.lists[period.doublings]!.add(period);
  }

  private earliest(): Fifo<IdlePeriod> | undefined {
    let found: Fifo<IdlePeriod> | undefined;
    for (const list of this.lists) {
      const period = list?.first();
      if (period !== undefined && period.until < (found?.first()?.until ?? Number.POSITIVE_INFINITY))
        found = list;
    }
    return found;
  }
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
