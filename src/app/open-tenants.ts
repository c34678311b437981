import type { Budget } from "../base/budget.js";
import { defined } from "../base/defined.js";
import { InvalidOperationError } from "../errors.js";
import {
  createTenantStores,
  type TenantStores,
  type TenantStoresOptions,
} from "../tenants/connections/tenant-stores.js";
import { type DiscoveryContext, fromRecords, type TenantDiscovery } from "../tenants/discovery/discovery.js";
import { createFanOutDispatcher } from "../tenants/fan-out/fan-out-dispatcher.js";
import { fanOutJob } from "../tenants/fan-out/fan-out-job.js";
import type { FanOut, TenantBatch } from "../tenants/fan-out/tenant-batch.js";
import { throttleByKey } from "../tenants/fan-out/throttle-by-key.js";
import {
  cleanUpTenants,
  emptyMaintenanceReport,
  hasMaintained,
  reapTenants,
  type TenantMaintenance,
  type TenantMaintenanceReport,
} from "../tenants/scheduling/maintain-tenants.js";
import { migrateTenants } from "../tenants/scheduling/migrate-tenants.js";
import {
  createTenantDispatcher,
  type TenantDispatcherOptions,
} from "../tenants/scheduling/tenant-dispatcher.js";
import type { TenantDispatchers } from "../tenants/scheduling/tenant-turn.js";
import { type Tenant, tenantKey } from "../tenants/tenant.js";
import type { AppParts } from "./app-definition.js";
import { appDispatchers } from "./app-dispatchers.js";
import type { OpenTenants, TenantsContext } from "./app-tenants.js";
import type { DispatchReport } from "./dispatch-all.js";
import { retentionsOf } from "./retentions.js";
import { mergedReports, toDispatchReport, toMaintenanceReport } from "./tenant-reports.js";
import { coalesced, wakeUpIntervalMs } from "./wake-up.js";

export interface TenantSettings {
  readonly stores: Pick<
    TenantStoresOptions,
    "discover" | "allow" | "refreshMs" | "discoverMs" | "connections" | "open"
  >;
  readonly turns: Pick<TenantDispatcherOptions, "selection" | "concurrency" | "turnMs" | "pollTimeoutMs">;
  readonly tenantBatchSize: number;
  readonly periodMs: number;
}

/** The jobs of an app with many tenants. */
export function openTenants(settings: TenantSettings, context: TenantsContext): OpenTenants {
  const { definition, logger, wakeUp } = context;
  const { periodMs } = settings;
  const stores = openStores(settings, context);
  const { distinctStores } = stores;
  const dispatchers = dispatchersOf(context);
  const dispatcher = createTenantDispatcher({ ...settings.turns, tenants: stores, dispatchers, logger });
  const fanOut = context.fanOut ?? wakeUpInstead(context);
  // Without workers one invocation serves all tenants.
  const tenantBatchSize = context.fanOut === undefined ? Number.MAX_SAFE_INTEGER : settings.tenantBatchSize;
  const common = { distinctStores, fanOut, tenantBatchSize, logger };
  const dispatching = createFanOutDispatcher({ ...common, periodMs, dispatcher });
  const maintenance = (job: "reap" | "cleanup", run: TenantMaintenance, timerMs: number) =>
    fanOutJob<TenantMaintenanceReport>({
      ...common,
      job,
      run: (budget, { tenants }) => run(budget, tenants),
      emptyReport: emptyMaintenanceReport,
      madeProgress: hasMaintained,
      periodMs: timerMs,
      now: Date.now,
      random: Math.random,
    });
  const options = {
    dispatcher,
    logger,
    metrics: definition.metrics,
    retentions: retentionsOf(context),
    pollTimeoutMs: settings.turns.pollTimeoutMs,
  };
  const reaping = maintenance("reap", reapTenants(options), periodMs);
  const cleaningUp = maintenance("cleanup", cleanUpTenants(options), 60 * periodMs);
  const wakeTenant = throttleByKey(wakeUpIntervalMs, (tenant) =>
    fanOut.send({ tenants: [tenant], until: Date.now() + periodMs, woken: true }),
  );

  const workOn = async (batch: TenantBatch, budget: Budget): Promise<DispatchReport> => {
    if (batch.job === undefined) return toDispatchReport(await dispatching.work(batch, budget));
    const report = await (batch.job === "reap" ? reaping : cleaningUp).work(batch, budget);
    return toDispatchReport({ ...report, inbox: null, outbox: null });
  };

  return {
    stores,
    async dispatch(budget, { wokenUp = false, tenantBatches = [] } = {}) {
      if (tenantBatches.length > 0) {
        const reports: DispatchReport[] = [];
        for (const batch of tenantBatches) reports.push(await workOn(batch, budget));
        return reports.reduce(mergedReports);
      }
      if (wokenUp && context.fanOut === undefined) {
        const tenants = await distinctStores();
        return workOn({ tenants, until: Date.now() + periodMs, woken: true, anyOfThem: true }, budget);
      }
      return toDispatchReport(await dispatching.start(budget));
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
    isQuarantined: dispatcher.isQuarantined,
    migrate: () => migrateTenants(stores),
    close: () => stores.close(),
  };
}

function openStores(
  { stores }: TenantSettings,
  { definition, resolveSecret, logger, signInAs }: TenantsContext,
) {
  const telemetry = defined({ metrics: definition.metrics, tracing: definition.tracing });
  const withoutTable = ({ table: _, ...rest }: { table?: string } = {}) => ({ ...rest, ...telemetry });
  return createTenantStores(
    {
      ...stores,
      discover: withDefaultTables(stores.discover, definition),
      resolveSecret,
      logger,
      inbox: withoutTable(definition.inbox),
      outbox: withoutTable(definition.outbox),
    },
    { signInAs },
  );
}

/** Tenants without names of their own have the app's names of schema and tables. */
function withDefaultTables(
  discover: TenantDiscovery,
  { schema, inbox, outbox }: TenantsContext["definition"],
): TenantDiscovery {
  const withDefaults = (tenant: Tenant): Tenant =>
    Object(tenant) !== tenant
      ? tenant // not an object: the list of tenants reports it
      : {
          ...tenant,
          schema: tenant.schema ?? schema,
          inbox: tenant.inbox ?? inbox?.table,
          outbox: tenant.outbox ?? outbox?.table,
        };
  const discoverWithDefaults = async (context: DiscoveryContext): Promise<readonly Tenant[]> => {
    const found = await discover(context);
    return Array.isArray(found) ? found.map(withDefaults) : found;
  };
  return discover.needsAllow ? fromRecords(discoverWithDefaults) : discoverWithDefaults;
}

/** Where the platform starts no workers, a wake-up starts a run over all tenants: one is enough for many batches. */
function wakeUpInstead({ wakeUp }: TenantsContext): FanOut {
  const coalescedWakeUp = wakeUp && coalesced(wakeUp);
  return {
    async send({ job }) {
      if (job === undefined) await coalescedWakeUp?.wake(); // maintenance waits for its next timer
    },
  };
}

/** Handlers that are made for each tenant need dispatchers for each tenant. */
function dispatchersOf({
  definition,
  logger,
}: TenantsContext): TenantDispatchers | ((stores: TenantStores) => TenantDispatchers) {
  const { handlers, publishers } = definition;
  const dispatchers = (parts: AppParts): TenantDispatchers => appDispatchers(parts, definition, logger);
  const isPerTenant = typeof handlers === "function" || typeof publishers === "function";
  return isPerTenant ? dispatchers : dispatchers(noParts);
}

/** Handlers that are not a function take no parts. */
const noParts = {} as AppParts;

const noTenant = () =>
  new InvalidOperationError(
    'The webhook names no tenant. Add to its source where the tenant\'s key is, for example tenant: "{json:account}".',
  );
