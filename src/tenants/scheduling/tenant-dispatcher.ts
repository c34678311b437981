import type { Budget } from "../../base/async.js";
import { type Logger, type LoggerOption, loggerOf } from "../../base/logger.js";
import { type DispatchResult, sumOfResults } from "../../dispatch/dispatch-run.js";
import type { Dispatcher } from "../../dispatch/dispatcher.js";
import { ArgumentRangeError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { InboxMessage, OutboxMessage, QueueMessage } from "../../queue/message.js";
import type { DispatchStore } from "../../queue/work-store.js";
import type { SqlExecutor } from "../../sql/driver.js";
import { NoFreeConnectionError } from "../connections/connection-budget.js";
import { inTurn } from "../connections/database-pools.js";
import {
  type Due,
  defaultPollTimeoutMs,
  PollTimeoutError,
  poll,
  type TenantStoreProvider,
  type TenantStores,
} from "../connections/tenant-stores.js";
import { normalKey } from "../tenant.js";
import { fair, untilDone } from "./fair-selection.js";
import { runTenants, type TenantRun, type TenantRunResult, tenantQuarantine } from "./run-tenants.js";
import type { SelectionStrategy } from "./selection.js";

/** Options of a dispatcher for many tenants. */
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

/** What a dispatch of many tenants did. */
export interface TenantDispatchReport extends TenantRunResult {
  /** The sums of all turns; null where no turn found anything. */
  readonly inbox: DispatchResult | null;
  readonly outbox: DispatchResult | null;
}

interface TenantRunOptions {
  /** A message has just been stored for these tenants, so their databases work: they are polled even if quarantined. */
  readonly woken?: boolean;
}

/** Dispatches the queues of many tenants, fairly. */
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
        return tenantTurn(stores, due, turnBudget, dispatchersOf(stores), pollTimeoutMs, (queue, result) => {
          sums[queue] = sumOfResults(sums[queue], result);
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

/** The dispatchers of a tenant's queues; a queue whose dispatcher is undefined is left alone. */
export interface TenantDispatchers {
  readonly inbox: Dispatcher<InboxMessage, SqlExecutor> | undefined;
  readonly outbox: Dispatcher<OutboxMessage, SqlExecutor> | undefined;
}

/** Handles one batch of each queue that is due. Returns whether there may be more. */
async function tenantTurn(
  stores: TenantStores,
  due: Due,
  budget: Budget,
  { inbox, outbox }: TenantDispatchers,
  /** A claim that is pending for longer is an error. */
  pollTimeoutMs: number,
  onResult: (queue: "inbox" | "outbox", result: DispatchResult) => void,
): Promise<boolean> {
  const batch = async <Message extends QueueMessage>(
    queue: "inbox" | "outbox",
    dispatcher: Dispatcher<Message, SqlExecutor> | undefined,
    store: DispatchStore<Message, SqlExecutor>,
  ): Promise<DispatchResult | undefined> => {
    if (dispatcher === undefined) return undefined;
    const single = singleBatchStore(store);
    const result = await dispatcher.run(single.store, budget, { outbox: stores.outbox });
    onResult(queue, result);
    if (single.pendingClaimMs() >= pollTimeoutMs)
      throw new InvalidOperationError(
        `The ${queue} did not return a claim within ${pollTimeoutMs} ms (pollTimeoutMs).`,
      );
    return result;
  };

  const settled = await Promise.allSettled([
    due.inbox ? batch("inbox", inbox, stores.inbox) : undefined,
    due.outbox ? batch("outbox", outbox, stores.outbox) : undefined,
  ]);
  // A queue that failed must not end the turn while the other still works.
  const failed = settled.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  // A handler of the inbox may have filled the outbox, so a turn that found something is followed by another poll.
  const results = settled.map((one) => (one.status === "fulfilled" ? one.value : undefined));
  return results.some(
    (result) => result !== undefined && (result.claimed > 0 || result.stopped !== "drained"),
  );
}

/** A store that returns one batch and is empty after it. A dispatcher's run over it is a tenant's turn. */
function singleBatchStore<Message extends QueueMessage, Tx>(store: DispatchStore<Message, Tx>) {
  let claimedAt: number | undefined;
  let hasReturned = false;
  return {
    /** For how long the claim has been pending; 0 when it has returned, or was never made. */
    pendingClaimMs: () => (claimedAt === undefined || hasReturned ? 0 : performance.now() - claimedAt),
    store: {
      ...store,
      async claim(options: Parameters<typeof store.claim>[0]) {
        if (claimedAt !== undefined) return [];
        claimedAt = performance.now();
        const messages = await store.claim(options);
        hasReturned = true;
        return messages;
      },
    },
  };
}
