import { attempted } from "../../base/attempted.js";
import type { Budget } from "../../base/budget.js";
import { guardedLogger, type Logger, silentLogger } from "../../base/logger.js";
import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import { ArgumentRangeError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { NoRoomError } from "../connections/connection-budget.js";
import type { TenantStoreProvider, TenantStores } from "../connections/tenant-stores.js";
import { normalKey } from "../tenant.js";
import { fair, inTurns } from "./fair.js";
import { type Due, dueQuestion, NoAnswerError } from "./poll.js";
import { quarantine } from "./quarantine.js";
import { resultSum } from "./report-sum.js";
import { runTenants, type TenantRunResult, type TurnTime } from "./run-tenants.js";
import type { SelectionStrategy } from "./selection.js";
import { type TenantDispatchers, tenantTurn } from "./tenant-turn.js";

export interface TenantDispatcherOptions {
  readonly tenants: Pick<TenantStoreProvider, "distinctStores" | "list" | "find" | "ready" | "refresh">;
  /** For all tenants, or made for each of them when it first has a turn. */
  readonly dispatchers: TenantDispatchers | ((stores: TenantStores) => TenantDispatchers);
  /** Which tenant is next: `fair()` by default, `roundRobin()`, `drainFirst()`, or your own. */
  readonly selection?: SelectionStrategy;
  /** Tenants at once: 8 by default. */
  readonly concurrency?: number;
  /** The most that one turn of a tenant may take: 15 s by default. */
  readonly turnMs?: number;
  /** The most that a tenant's database may take to answer: 2 s by default. */
  readonly pollMs?: number;
  readonly logger?: Logger;
  /** For tests: milliseconds, instead of the process's clock. */
  readonly now?: () => number;
}

export interface TenantDispatchReport extends TenantRunResult {
  /** The sums of all turns; null where none found anything. */
  readonly inbox: DispatchResult | null;
  readonly outbox: DispatchResult | null;
}

export interface TenantRunOptions {
  /** Something has just come for these tenants, so they answer: they are looked at though they were set aside. */
  readonly woken?: boolean;
}

export interface TenantDispatcher {
  /** All tenants, or those of a share, within the budget. */
  run(budget: Budget, ids?: readonly string[], options?: TenantRunOptions): Promise<TenantDispatchReport>;
  /** Another job for each tenant, or those of a share; it answers whether there is more to do. */
  each(
    budget: Budget,
    work: (stores: TenantStores, budget: Budget) => Promise<boolean>,
    ids?: readonly string[],
  ): Promise<TenantRunResult>;
}

const isSome = ({ inbox, outbox }: Due): boolean => inbox || outbox;

export const dispatchDefaults = { concurrency: 8, turnMs: 15_000, pollMs: 2_000 } as const;

const known = ["tenants", "dispatchers", "selection", "logger", "now", ...Object.keys(dispatchDefaults)];

/**
 * One dispatcher for all tenants: in turns of one batch, so that a busy tenant cannot keep the others waiting, and a
 * broken or slow one costs no more than its own time.
 *
 * @example
 * const dispatcher = createTenantDispatcher({ tenants, dispatchers: { inbox: createDispatcher({ handlers }), outbox: undefined } });
 * await dispatcher.run(timeBudget(60_000));
 */
export function createTenantDispatcher(options: TenantDispatcherOptions): TenantDispatcher {
  refuseUnknown(options, known, "createTenantDispatcher");
  const { concurrency, turnMs, pollMs } = { ...dispatchDefaults, ...options };
  requireDuration(turnMs, "turnMs");
  requireDuration(pollMs, "pollMs");
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new ArgumentRangeError("concurrency must be a whole number from 1 on.");
  }
  const { tenants, selection = fair() } = options;
  const logger = guardedLogger(options.logger ?? silentLogger);
  const aside = quarantine(options.now);
  const due = dueQuestion();
  const common = { concurrency, turnMs, aside, logger };

  const made = new WeakMap<TenantStores, TenantDispatchers>();
  const dispatchersOf = (stores: TenantStores): TenantDispatchers => {
    if (typeof options.dispatchers !== "function") return options.dispatchers;
    let dispatchers = made.get(stores);
    if (dispatchers === undefined) {
      dispatchers = options.dispatchers(stores);
      made.set(stores, dispatchers);
    }
    return dispatchers;
  };

  /** A share may name one that this instance has not heard of yet, or one that has gone. */
  const stillThere = async (named: readonly string[]): Promise<readonly string[]> => {
    const ids = [...new Set(named.map(normalKey))];
    const isUnknown = (known: ReadonlySet<string>) => (id: string) => !known.has(id);
    let all = new Set(await tenants.list());
    if (ids.some(isUnknown(all))) {
      await tenants.refresh();
      all = new Set(await tenants.list());
    }
    return ids.filter((id) => all.has(id));
  };

  const chosen = (ids: readonly string[] | undefined) =>
    ids === undefined ? tenants.distinctStores() : stillThere(ids);

  /** One turn, with a place for its connections from the beginning to the end. */
  const inPlace = async (
    id: string,
    limit: Budget,
    work: (stores: TenantStores, limit: Budget) => Promise<boolean>,
  ): Promise<boolean> => {
    const stores = await tenants.find(id);
    if (stores === undefined) return false; // removed meanwhile
    let release: () => void;
    try {
      release = await stores.db.reserve(limit.remainingMs());
    } catch (error) {
      if (!(error instanceof NoRoomError)) throw error;
      // Others have all connections. It stays in line, and is not set aside for it.
      logger.warn("a tenant waits for a free connection", { store: id });
      return true;
    }
    try {
      return await work(stores, limit);
    } finally {
      release();
    }
  };

  type Work = (stores: TenantStores, found: Due, limit: Budget) => Promise<boolean>;

  const look = (stores: TenantStores, budget: Budget): Promise<Due> =>
    due(stores, Math.min(pollMs, budget.remainingMs()));

  /** Cut off by the end of all the time: nobody's fault, and left for another. */
  const isCutOff = (error: unknown, budget: Budget): boolean =>
    error instanceof NoAnswerError && budget.remainingMs() <= 0;

  /**
   * Asks whether there is work, and does it. A tenant that has none, and whose connection is open, costs that question
   * and hardly more: the turn's own time and what it needs begin with the work.
   */
  const lookedAt =
    (budget: Budget, work: Work) =>
    (id: string, timed: TurnTime): Promise<boolean> => {
      const stores = tenants.ready(id);
      const release = stores?.db.reserveNow();
      if (stores === undefined || release === undefined) {
        return timed((limit) =>
          inPlace(id, limit, async (found, rest) => {
            const seen = await look(found, rest).catch((error: unknown) => {
              if (isCutOff(error, budget)) return undefined;
              throw error;
            });
            return seen === undefined || (isSome(seen) && work(found, seen, rest));
          }),
        );
      }
      return attempted(() => look(stores, budget)).then(
        (seen) => {
          if (isSome(seen)) return timed((limit) => work(stores, seen, limit)).finally(release);
          release();
          return false;
        },
        (error: unknown) => {
          release();
          if (isCutOff(error, budget)) return true;
          throw error;
        },
      );
    };

  return {
    async run(budget, ids, { woken = false } = {}) {
      const sums = { inbox: resultSum(), outbox: resultSum() };
      const result = await runTenants({
        ...common,
        aside: woken ? { ...aside, has: () => false } : aside,
        ids: await chosen(ids),
        selection,
        budget,
        turn: lookedAt(budget, (stores, found, limit) =>
          tenantTurn(stores, found, limit, {
            dispatchers: dispatchersOf(stores),
            pollMs,
            onResult: (queue, one) => sums[queue].add(one),
          }),
        ),
      });
      const stopped = budget.signal.aborted ? "aborted" : result.left.length > 0 ? "time" : "drained";
      return { ...result, inbox: sums.inbox.result(stopped), outbox: sums.outbox.result(stopped) };
    },
    each: async (budget, work, ids) =>
      runTenants({
        ...common,
        ids: await chosen(ids),
        selection: inTurns(),
        budget,
        turn: (id, timed) => timed((limit) => inPlace(id, limit, work)),
      }),
  };
}
