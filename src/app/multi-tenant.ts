import type { Budget } from "../base/budget.js";
import { createDispatcher } from "../dispatch/dispatcher.js";
import type { Handlers } from "../dispatch/handlers.js";
import { InvalidOperationError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { SqlExecutor } from "../sql/driver.js";
import {
  createTenantStores,
  type TenantStores,
  type TenantStoresOptions,
} from "../tenants/connections/tenant-stores.js";
import type { TenantDiscovery } from "../tenants/discovery/discovery.js";
import {
  createFanOutDispatcher,
  type FanOutReport,
  fanOutDefaults,
} from "../tenants/fan-out/fan-out-dispatcher.js";
import { fanOutJob, requireTenantBatchSize } from "../tenants/fan-out/fan-out-job.js";
import { onePerInterval } from "../tenants/fan-out/one-per-interval.js";
import type { FanOut, TenantBatch } from "../tenants/fan-out/tenant-batch.js";
import {
  cleanUpTenants,
  hasMaintained,
  nothingMaintained,
  reapTenants,
  type TenantMaintenance,
  type TenantMaintenanceReport,
  toMaintenanceReport,
} from "../tenants/scheduling/maintain-tenants.js";
import { migrateTenants } from "../tenants/scheduling/migrate-tenants.js";
import {
  createTenantDispatcher,
  type TenantDispatcherOptions,
} from "../tenants/scheduling/tenant-dispatcher.js";
import type { TenantDispatchers } from "../tenants/scheduling/tenant-turn.js";
import { type Tenant, tenantKey } from "../tenants/tenant.js";
import type { AppParts } from "./app-definition.js";
import type { AppTenants, OpenTenants, TenantsContext } from "./app-tenants.js";
import type { DispatchReport } from "./dispatch-all.js";
import { coalesced, wakeUpIntervalMs } from "./wake-up.js";

export interface MultiTenantOptions
  extends Pick<TenantStoresOptions, "discover" | "refreshMs" | "discoverMs" | "connections" | "open">,
    Pick<TenantDispatcherOptions, "selection" | "concurrency" | "turnMs" | "pollMs"> {
  /** Tenants in a share, where the platform can start workers: 250 by default. */
  readonly tenantBatchSize?: number;
  /** How often the timer of the dispatcher comes: 60 s by default. */
  readonly periodMs?: number;
}

const storeOptions = ["discover", "refreshMs", "discoverMs", "connections", "open"] as const;
const turnOptions = ["selection", "concurrency", "turnMs", "pollMs"] as const;
const fanOutOptions = ["tenantBatchSize", "periodMs"];

/**
 * For `tenants` of `defineApp`: the app's functions then serve all tenants that are found.
 *
 * @example
 * export default defineApp({
 *   tenants: multiTenant({ discover: tenantsFromCatalogue({ database: { from: "env", name: "CATALOGUE_URL" } }) }),
 *   handlers: ({ outbox }) => ({ "order.placed": (message) => outbox.enqueue({ topic: "order.confirm", payload: message.payload }) }),
 * });
 */
export function multiTenant(options: MultiTenantOptions): AppTenants {
  refuseUnknown(options, [...storeOptions, ...turnOptions, ...fanOutOptions], "multiTenant");
  const { tenantBatchSize, periodMs } = { ...fanOutDefaults, ...options };
  requireDuration(periodMs, "periodMs");
  requireTenantBatchSize(tenantBatchSize);
  // Made for their checks: neither does anything before it is called.
  const tenants = createTenantStores(picked(options, storeOptions));
  const dispatchers = { inbox: undefined, outbox: undefined };
  createTenantDispatcher({ ...picked(options, turnOptions), tenants, dispatchers });
  return { open: (context) => openTenants(options, context) };
}

function openTenants(options: MultiTenantOptions, context: TenantsContext): OpenTenants {
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
  const periodMs = options.periodMs ?? fanOutDefaults.periodMs;
  const tenantBatchSize =
    context.fanOut === undefined
      ? Number.MAX_SAFE_INTEGER
      : (options.tenantBatchSize ?? fanOutDefaults.tenantBatchSize);
  const shares = createFanOutDispatcher({
    tenantBatchSize,
    periodMs,
    dispatcher,
    distinctStores: stores.distinctStores,
    fanOut,
    logger,
  });
  const maintenance = (job: "reap" | "cleanup", run: TenantMaintenance, comesEveryMs: number) =>
    fanOutJob<TenantMaintenanceReport>({
      job,
      run: (budget, { tenants }) => run(budget, tenants),
      nothing: nothingMaintained,
      hasDone: hasMaintained,
      distinctStores: stores.distinctStores,
      fanOut,
      tenantBatchSize,
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

  const workOn = async (share: TenantBatch, budget: Budget): Promise<DispatchReport> => {
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
        const tenants = await stores.distinctStores();
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

function toReport({
  inbox,
  outbox,
  turns,
  failed,
  quarantined,
  left,
  handedOut,
}: FanOutReport): DispatchReport {
  const tenants = {
    turns,
    handedOut,
    failed: failed.length,
    quarantined: quarantined.length,
    left: left.length,
  };
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
      quarantined: a.quarantined + b.quarantined,
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
