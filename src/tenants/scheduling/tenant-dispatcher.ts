import type { Budget } from "../../base/budget.js";
import { type Logger, type LoggerOption, loggerOf } from "../../base/logger.js";
import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import { sumOfResults } from "../../dispatch/result-sum.js";
import { ArgumentRangeError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { NoFreeConnectionError } from "../connections/connection-budget.js";
import type { TenantStoreProvider, TenantStores } from "../connections/tenant-stores.js";
import { inTurn } from "../connections/turn-calls.js";
import { normalKey } from "../tenant.js";
import { fair, untilDone } from "./fair.js";
import { type Due, defaultPollTimeoutMs, PollTimeoutError, poll } from "./poll.js";
import { tenantQuarantine } from "./quarantine.js";
import { runTenants, type TenantRun, type TenantRunResult } from "./run-tenants.js";
import type { SelectionStrategy } from "./selection.js";
import { type TenantDispatchers, tenantTurn } from "./tenant-turn.js";

export interface TenantDispatcherOptions {
  readonly tenants: Pick<TenantStoreProvider, "distinctStores" | "list" | "find" | "refresh">;
  /** The same for all tenants, or a function that makes them for each tenant at its first turn with work. */
  readonly dispatchers: TenantDispatchers | ((stores: TenantStores) => TenantDispatchers);
  /** Which tenant is next: `fair()` by default, `roundRobin()`, `drainFirst()`, or your own. */
  readonly selection?: SelectionStrategy;
  /** Turns at once: 8 by default. */
  readonly concurrency?: number;
  /** The longest time of one turn: 15 s by default. */
  readonly turnMs?: number;
  /** The longest time that a tenant's database has to respond to a poll: 2 s by default. */
  readonly pollTimeoutMs?: number;
  readonly logger?: LoggerOption;
  /** For tests: milliseconds, instead of the process's clock. */
  readonly now?: () => number;
}

export interface TenantDispatchReport extends TenantRunResult {
  /** The sums of all turns; null where no turn found anything. */
  readonly inbox: DispatchResult | null;
  readonly outbox: DispatchResult | null;
}

export interface TenantRunOptions {
  /** A message has just been stored for these tenants, so their databases work: they are polled even if quarantined. */
  readonly woken?: boolean;
}

export interface TenantDispatcher {
  /** Dispatches all tenants, or these, within the budget. */
  run(budget: Budget, ids?: readonly string[], options?: TenantRunOptions): Promise<TenantDispatchReport>;
  /** Does another job for all tenants, or these. `work` returns whether there is more to do. */
  each(budget: Budget, work: TenantWork, ids?: readonly string[]): Promise<TenantRunResult>;
  /** Whether a tenant is left alone for a while, because its last turn failed. */
  isQuarantined(id: string): boolean;
}

/** A job for one tenant, within its turn's time. Returns whether there may be more to do. */
export type TenantWork = (stores: TenantStores, turnBudget: Budget) => Promise<boolean>;

export const dispatchDefaults = {
  concurrency: 8,
  turnMs: 15_000,
  pollTimeoutMs: defaultPollTimeoutMs,
} as const;

const known = ["tenants", "dispatchers", "selection", "logger", "now", ...Object.keys(dispatchDefaults)];

/**
 * One dispatcher for all tenants. Tenants have turns of one batch each, so that a busy tenant does not delay the others,
 * and a broken or slow one costs no more than its own turn.
 *
 * @example
 * const dispatcher = createTenantDispatcher({ tenants, dispatchers: { inbox: createDispatcher({ handlers }), outbox: undefined } });
 * await dispatcher.run(timeBudget(60_000));
 */
export function createTenantDispatcher(options: TenantDispatcherOptions): TenantDispatcher {
  const { concurrency, turnMs, pollTimeoutMs } = requireOptions(options);
  const { tenants, selection = fair() } = options;
  const logger = loggerOf(options.logger);
  const quarantine = tenantQuarantine(options.now);
  const dispatchersOf = dispatchersByTenant(options.dispatchers);
  const reserve = connectionsOf(tenants, logger);
  const common = { concurrency, turnMs, quarantine, logger, reserve };
  const idsOf = (ids: readonly string[] | undefined) =>
    ids === undefined ? tenants.distinctStores() : knownTenants(tenants, ids);
  const turnOf =
    (work: TenantWork): TenantRun["turn"] =>
    async (id, turnBudget, givenUp) => {
      const stores = await tenants.find(id);
      if (stores === undefined) return false; // removed meanwhile
      return inTurn(turnBudget, givenUp, () => work(stores, turnBudget));
    };

  return {
    isQuarantined: quarantine.has,
    async run(budget, ids, { woken = false } = {}) {
      const sums: Record<"inbox" | "outbox", DispatchResult | null> = { inbox: null, outbox: null };
      const pollAndDispatch: TenantWork = async (stores, turnBudget) => {
        const due = await pollInTime(stores, pollTimeoutMs, turnBudget, budget);
        if (due === undefined) return true;
        if (!due.inbox && !due.outbox) return false;
        return tenantTurn(stores, due, turnBudget, {
          dispatchers: dispatchersOf(stores),
          pollTimeoutMs,
          onResult(queue, result) {
            sums[queue] = sumOfResults(sums[queue], result);
          },
        });
      };
      const result = await runTenants({
        ...common,
        quarantine: woken ? { ...quarantine, has: () => false } : quarantine,
        ids: await idsOf(ids),
        selection,
        pollTimeoutMs,
        budget,
        turn: turnOf(pollAndDispatch),
      });
      const stopped = budget.signal.aborted ? "aborted" : result.left.length > 0 ? "time" : "drained";
      const sumOf = (queue: "inbox" | "outbox"): DispatchResult | null =>
        sums[queue] && { ...sums[queue], stopped };
      return { ...result, inbox: sumOf("inbox"), outbox: sumOf("outbox") };
    },
    each: async (budget, work, ids) =>
      runTenants({ ...common, ids: await idsOf(ids), selection: untilDone(), budget, turn: turnOf(work) }),
  };
}

function requireOptions(options: TenantDispatcherOptions) {
  refuseUnknown(options, known, "createTenantDispatcher");
  const { concurrency, turnMs, pollTimeoutMs } = { ...dispatchDefaults, ...options };
  requireDuration(turnMs, "turnMs");
  requireDuration(pollTimeoutMs, "pollTimeoutMs");
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new ArgumentRangeError(`concurrency must be a whole number from 1 on, not ${String(concurrency)}.`);
  }
  return { concurrency, turnMs, pollTimeoutMs };
}

/** Dispatchers that are made for each tenant are made once per tenant. */
function dispatchersByTenant(
  dispatchers: TenantDispatcherOptions["dispatchers"],
): (stores: TenantStores) => TenantDispatchers {
  if (typeof dispatchers !== "function") return () => dispatchers;
  const made = new WeakMap<TenantStores, TenantDispatchers>();
  return (stores) => {
    const own = made.get(stores) ?? dispatchers(stores);
    made.set(stores, own);
    return own;
  };
}

/** A tenant batch may name a tenant that this instance does not know yet, or one that was removed. */
async function knownTenants(
  tenants: TenantDispatcherOptions["tenants"],
  named: readonly string[],
): Promise<readonly string[]> {
  const ids = [...new Set(named.map(normalKey))];
  let all = new Set(await tenants.list());
  if (ids.some((id) => !all.has(id))) {
    await tenants.refresh();
    all = new Set(await tenants.list());
  }
  return ids.filter((id) => all.has(id));
}

/** A turn has its connection slots from its beginning to its end. */
const connectionsOf =
  (tenants: Pick<TenantStoreProvider, "find">, logger: Logger): NonNullable<TenantRun["reserve"]> =>
  async (id, withinMs, signal) => {
    try {
      return (await (await tenants.find(id))?.db.reserve(withinMs, signal)) ?? (() => {});
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!(error instanceof NoFreeConnectionError)) throw error;
      // Other tenants have all connections: that is no reason to quarantine this one.
      logger.warn("a tenant waits for a free connection", { store: id });
      return undefined;
    }
  };

/** Undefined: the run's time ended before the poll's own. The tenant is left to another run, and not quarantined. */
async function pollInTime(
  stores: TenantStores,
  pollTimeoutMs: number,
  turnBudget: Budget,
  runBudget: Budget,
): Promise<Due | undefined> {
  const ms = Math.min(pollTimeoutMs, turnBudget.remainingMs());
  const endsWithRun = runBudget.remainingMs() <= ms;
  try {
    return await poll(stores, ms);
  } catch (error) {
    if (endsWithRun && error instanceof PollTimeoutError) return undefined;
    throw error;
  }
}
