import type { AppParts } from "../app/app-definition.js";
import type { AppTenants, OpenTenants, TenantsContext } from "../app/app-tenants.js";
import type { DispatchReport } from "../app/dispatch-all.js";
import { coalesced, wakeUpIntervalMs } from "../app/wake-up.js";
import { InvalidOperationError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { Budget } from "../queue/budget.js";
import { createDispatcher } from "../queue/dispatcher.js";
import type { Handlers } from "../queue/handlers.js";
import type { QueueMessage } from "../queue/message.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { TenantDiscovery } from "./discovery.js";
import { fannedOut, requireShareSize } from "./fanned-out.js";
import {
  cleanUpTenants,
  hasMaintained,
  nothingMaintained,
  reapTenants,
  type TenantMaintenance,
  type TenantMaintenanceReport,
  toMaintenanceReport,
} from "./maintain-tenants.js";
import { migrateTenants } from "./migrate-tenants.js";
import { onePerInterval } from "./one-per-interval.js";
import type { FanOut, TenantShare } from "./share-message.js";
import { createFanOutDispatcher, type FanOutReport, shareDefaults } from "./shares.js";
import { type Tenant, tenantKey } from "./tenant.js";
import { createTenantDispatcher, type TenantDispatcherOptions } from "./tenant-dispatcher.js";
import { createTenantStores, type TenantStores, type TenantStoresOptions } from "./tenant-stores.js";
import type { TenantDispatchers } from "./tenant-turn.js";

export interface ManyTenantsOptions
  extends Pick<TenantStoresOptions, "discover" | "refreshMs" | "discoverMs" | "connections" | "open">,
    Pick<TenantDispatcherOptions, "selection" | "concurrency" | "turnMs" | "pollMs"> {
  /** Tenants in a share, where the platform can start workers: 250 by default. */
  readonly shareSize?: number;
  /** How often the timer of the dispatcher comes: 60 s by default. */
  readonly periodMs?: number;
}

const storeOptions = ["discover", "refreshMs", "discoverMs", "connections", "open"] as const;
const turnOptions = ["selection", "concurrency", "turnMs", "pollMs"] as const;
const shareOptions = ["shareSize", "periodMs"];

/**
 * For `tenants` of `defineApp`: the app's functions then serve all tenants that are found.
 *
 * @example
 * export default defineApp({
 *   tenants: manyTenants({ discover: tenantsFromCatalogue({ database: { from: "env", name: "CATALOGUE_URL" } }) }),
 *   handlers: ({ outbox }) => ({ "order.placed": (message) => outbox.enqueue({ topic: "order.confirm", payload: message.payload }) }),
 * });
 */
export function manyTenants(options: ManyTenantsOptions): AppTenants {
  refuseUnknown(options, [...storeOptions, ...turnOptions, ...shareOptions], "manyTenants");
  const { shareSize, periodMs } = { ...shareDefaults, ...options };
  requireDuration(periodMs, "periodMs");
  requireShareSize(shareSize);
  // Made for their checks: neither does anything before it is called.
  const tenants = createTenantStores(picked(options, storeOptions));
  const dispatchers = { inbox: undefined, outbox: undefined };
  createTenantDispatcher({ ...picked(options, turnOptions), tenants, dispatchers });
  return { open: (context) => openTenants(options, context) };
}

function openTenants(options: ManyTenantsOptions, context: TenantsContext): OpenTenants {
  const { definition, resolveSecret, logger, wakeUp } = context;
  const tables = ({ table: _, ...rest }: { table?: string } = {}) => rest;
  const stores = createTenantStores({
    ...picked(options, storeOptions),
    discover: withTables(options.discover, definition),
    resolveSecret,
    logger,
    inbox: tables(definition.inbox),
    outbox: tables(definition.outbox),
  });
  const dispatcher = createTenantDispatcher({
    ...picked(options, turnOptions),
    tenants: stores,
    dispatchers: dispatchersOf(context),
    logger,
  });
  const fanOut = context.fanOut ?? alone(context);
  const periodMs = options.periodMs ?? shareDefaults.periodMs;
  const shareSize =
    context.fanOut === undefined ? Number.MAX_SAFE_INTEGER : (options.shareSize ?? shareDefaults.shareSize);
  const shares = createFanOutDispatcher({
    shareSize,
    periodMs,
    dispatcher,
    places: stores.places,
    fanOut,
    logger,
  });
  const maintenance = (job: "reap" | "cleanup", run: TenantMaintenance, comesEveryMs: number) =>
    fannedOut<TenantMaintenanceReport>({
      job,
      run: (budget, { tenants }) => run(budget, tenants),
      nothing: nothingMaintained,
      hasDone: hasMaintained,
      places: stores.places,
      fanOut,
      shareSize,
      periodMs: comesEveryMs,
      logger,
      now: Date.now,
      random: Math.random,
    });
  const { retentionMs } = definition;
  const maintenanceOptions = { dispatcher, logger, retentionMs, pollMs: options.pollMs };
  const reaping = maintenance("reap", reapTenants(maintenanceOptions), periodMs);
  const cleaningUp = maintenance("cleanup", cleanUpTenants(maintenanceOptions), 60 * periodMs);
  const wakeTenant = onePerInterval(wakeUpIntervalMs, (tenant) =>
    fanOut.send({ tenants: [tenant], until: Date.now() + periodMs, woken: true }),
  );

  const workOn = async (share: TenantShare, budget: Budget): Promise<DispatchReport> => {
    if (share.job === undefined) return toReport(await shares.work(share, budget));
    const report = await (share.job === "reap" ? reaping : cleaningUp).work(share, budget);
    return toReport({ ...report, inbox: null, outbox: null });
  };

  return {
    stores,
    async dispatch(budget, { wokenUp = false, shares: given = [] } = {}) {
      if (given.length > 0) {
        const reports: DispatchReport[] = [];
        for (const share of given) reports.push(await workOn(share, budget));
        return reports.reduce(together);
      }
      if (wokenUp && context.fanOut === undefined) {
        const tenants = await stores.places();
        const all = { tenants, until: Date.now() + periodMs, woken: true, anyOfThem: true };
        return toReport(await shares.work(all, budget));
      }
      return toReport(await shares.start(budget));
    },
    reap: async (budget) => toMaintenanceReport(await reaping.start(budget)),
    cleanup: async (budget) => toMaintenanceReport(await cleaningUp.start(budget)),
    inboxFor: async ({ tenant }) => {
      if (tenant === null) throw noTenant();
      return stores.inbox(tenant);
    },
    async wake({ tenant }) {
      if (tenant !== null && (wakeUp ?? context.fanOut) !== undefined) await wakeTenant(tenantKey(tenant));
    },
    migrate: () => migrateTenants(stores),
    close: () => stores.close(),
  };
}

/** The app's names of schema and tables, for tenants that have none of their own. */
function withTables(
  discover: TenantDiscovery,
  { schema, inbox, outbox }: TenantsContext["definition"],
): TenantDiscovery {
  const usual = { schema, inbox: inbox?.table, outbox: outbox?.table };
  const own = (tenant: Tenant): Tenant =>
    Object(tenant) !== tenant
      ? tenant // it is told of as it is
      : {
          ...tenant,
          schema: tenant.schema ?? usual.schema,
          inbox: tenant.inbox ?? usual.inbox,
          outbox: tenant.outbox ?? usual.outbox,
        };
  return async (context) => {
    const found = await discover(context);
    return Array.isArray(found) ? found.map(own) : found;
  };
}

/** Where the platform starts no workers, whoever is woken looks at all tenants: one is enough for many shares. */
function alone({ wakeUp }: TenantsContext): FanOut {
  const once = wakeUp === undefined ? undefined : coalesced(wakeUp);
  return {
    async send({ job }) {
      if (job === undefined) await once?.wake(); // maintenance has time until its next timer
    },
  };
}

/** A tenant has dispatchers of its own when its handlers are made for it. */
function dispatchersOf({ definition, logger }: TenantsContext) {
  const make = <Message extends QueueMessage>(
    handlers:
      | Handlers<Message, SqlExecutor>
      | ((parts: AppParts) => Handlers<Message, SqlExecutor>)
      | undefined,
    parts: AppParts | undefined,
  ) =>
    handlers === undefined
      ? undefined
      : createDispatcher<Message, SqlExecutor>({
          ...definition.dispatch,
          ...(definition.metrics === undefined ? {} : { metrics: definition.metrics }),
          handlers: typeof handlers === "function" ? handlers(parts!) : handlers,
          logger,
        });
  const all = (parts?: AppParts): TenantDispatchers => ({
    inbox: make(definition.handlers, parts),
    outbox: make(definition.publishers, parts),
  });
  const isPerTenant = [definition.handlers, definition.publishers].some((it) => typeof it === "function");
  return isPerTenant ? (stores: TenantStores) => all(stores) : all();
}

function toReport({ inbox, outbox, turns, failed, setAside, left, handedOut }: FanOutReport): DispatchReport {
  const tenants = { turns, handedOut, failed: failed.length, setAside: setAside.length, left: left.length };
  return { inbox, outbox, more: left.length > 0, tenants };
}

/** Of a batch's shares: at most one of them is about messages. */
function together(first: DispatchReport, second: DispatchReport): DispatchReport {
  const [a, b] = [first.tenants!, second.tenants!];
  return {
    inbox: first.inbox ?? second.inbox,
    outbox: first.outbox ?? second.outbox,
    more: first.more || second.more,
    tenants: {
      turns: a.turns + b.turns,
      handedOut: a.handedOut + b.handedOut,
      failed: a.failed + b.failed,
      setAside: a.setAside + b.setAside,
      left: a.left + b.left,
    },
  };
}

const noTenant = () =>
  new InvalidOperationError("The webhook names no tenant. Say in its source where it is: tenant: …");

const picked = <T extends object, Name extends keyof T>(value: T, names: readonly Name[]): Pick<T, Name> =>
  Object.fromEntries(
    names.filter((name) => value[name] !== undefined).map((name) => [name, value[name]]),
  ) as unknown as Pick<T, Name>;
