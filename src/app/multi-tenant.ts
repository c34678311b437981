import type { Budget } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import type { Logger } from "../base/logger.js";
import { openDatabase } from "../config/database-url.js";
import type { Environment } from "../config/environment.js";
import type { SecretResolver } from "../config/secret-reference.js";
import { InvalidOperationError } from "../errors.js";
import type { Inbox } from "../inbox/inbox.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { MigrateResult } from "../sql/migrate.js";
import {
  createTenantStores,
  type SignIn,
  type TenantStoreProvider,
  type TenantStoresOptions,
} from "../tenants/connections/tenant-stores.js";
import {
  type FanOutReport,
  fanOutDefaults,
  fanOutDispatcher,
  fanOutJob,
  requireTenantBatchSize,
} from "../tenants/fan-out/fan-out.js";
import type { FanOut, TenantBatch } from "../tenants/fan-out/tenant-batch.js";
import {
  cleanUpTenants,
  emptyMaintenanceReport,
  hasMaintained,
  migrateTenants,
  reapTenants,
  type TenantMaintenance,
  type TenantMaintenanceReport,
} from "../tenants/scheduling/maintenance.js";
import {
  createTenantDispatcher,
  type TenantDispatcherOptions,
  type TenantDispatchers,
} from "../tenants/scheduling/tenant-dispatcher.js";
import {
  type DiscoveryContext,
  fromRecords,
  type Tenant,
  type TenantDiscovery,
  tenantKey,
} from "../tenants/tenant.js";
import type { ReceivedWebhook } from "../webhooks/route-options.js";
import { type AppDefinition, type AppParts, requireKind } from "./definition.js";
import { appDispatchers, type DispatchJob, type DispatchReport } from "./dispatch-job.js";
import { type MaintenanceJob, type MaintenanceReport, retentionsOf } from "./maintenance-jobs.js";
import { coalesced, throttleByKey, type WakeUp, wakeUpIntervalMs } from "./wake-up.js";

const storeNames = ["discover", "allow", "refreshMs", "discoverMs", "connections", "open"] as const;
const turnNames = ["selection", "concurrency", "turnMs", "pollTimeoutMs"] as const;

type StoreOptions = Pick<TenantStoresOptions, (typeof storeNames)[number]>;
type TurnOptions = Pick<TenantDispatcherOptions, (typeof turnNames)[number]>;

/** How an app finds its tenants, and how it serves them. */
export interface MultiTenantOptions extends StoreOptions, TurnOptions {
  /** Tenants in a batch, where the platform can start workers: 250 by default. */
  readonly tenantBatchSize?: number;
  /** The time between two timers of the dispatcher: 60 s by default. */
  readonly periodMs?: number;
}

/**
 * For `tenants` of `defineApp`: the app's functions then serve all tenants that `discover` returns.
 *
 * @example
 * export default defineApp({
 *   tenants: multiTenant({
 *     discover: tenantsFromCatalogue({ database: { from: "env", name: "CATALOGUE_URL" } }),
 *     allow: { kinds: ["postgres"], hosts: ["db.example.com"] },
 *   }),
 *   handlers: { "order.placed": ({ data }) => ({ topic: "order.confirm", data }) },
 * });
 */
export function multiTenant(options: MultiTenantOptions): AppTenants {
  refuseUnknown(options, [...storeNames, ...turnNames, ...Object.keys(fanOutDefaults)], "multiTenant");
  const { tenantBatchSize, periodMs } = { ...fanOutDefaults, ...options };
  requireDuration(periodMs, "periodMs");
  requireTenantBatchSize(tenantBatchSize);
  const stores = picked(options, storeNames) as StoreOptions;
  const turns: TurnOptions = picked(options, turnNames);
  // Made only for their checks, so that a wrong option is an error at once: neither does anything before it is called.
  const dispatchers = { inbox: undefined, outbox: undefined };
  createTenantDispatcher({ ...turns, tenants: createTenantStores(stores), dispatchers });
  return { open: (context) => openTenants({ stores, turns, tenantBatchSize, periodMs }, context) };
}

const picked = <Options extends object, Name extends keyof Options>(
  options: Options,
  names: readonly Name[],
): Partial<Pick<Options, Name>> =>
  Object.fromEntries(
    Object.entries(options).filter(([name, value]) => value !== undefined && names.includes(name as Name)),
  ) as Partial<Pick<Options, Name>>;

interface TenantsContext extends SignIn {
  readonly definition: AppDefinition;
  readonly environment: Environment;
  readonly resolveSecret: SecretResolver;
  readonly logger: Logger;
  readonly wakeUp: WakeUp | undefined;
  /** Undefined: one function serves all tenants. */
  readonly fanOut: FanOut | undefined;
}

/** Every job of an app, for all of its tenants. */
export interface OpenTenants {
  readonly stores: TenantStoreProvider;
  readonly dispatch: DispatchJob;
  readonly reap: MaintenanceJob;
  readonly cleanup: MaintenanceJob;
  inboxFor(webhook: ReceivedWebhook): Promise<Inbox>;
  /** Wakes a worker for the tenant of a stored webhook. */
  wake(webhook: ReceivedWebhook): Promise<void>;
  /** For a worker of a resident process. */
  readonly workerParts: Pick<
    TenantDispatcherOptions,
    "tenants" | "dispatchers" | "concurrency" | "turnMs" | "pollTimeoutMs"
  >;
  /** Whether the dispatcher of this process leaves the tenant alone for a while, because a turn failed. */
  isQuarantined(id: string): boolean;
  migrate(): Promise<MigrateResult>;
  close(): Promise<void>;
}

/** Only a type here, so that the bundle of an app with one database holds no code for tenants: `multiTenant(…)` returns it. */
export interface AppTenants {
  open(context: TenantsContext): OpenTenants;
}

interface TenantSettings extends Required<Pick<MultiTenantOptions, "tenantBatchSize" | "periodMs">> {
  readonly stores: StoreOptions;
  readonly turns: TurnOptions;
}

/** The jobs of an app with many tenants. */
function openTenants(settings: TenantSettings, context: TenantsContext): OpenTenants {
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
  const dispatching = fanOutDispatcher({ ...common, periodMs, dispatcher });
  const maintenance = (job: "reap" | "cleanup", run: TenantMaintenance, timerMs: number) =>
    fanOutJob<TenantMaintenanceReport>({
      ...common,
      job,
      run: (budget, { tenants }) => run(budget, tenants),
      emptyReport: emptyMaintenanceReport,
      madeProgress: hasMaintained,
      periodMs: timerMs,
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
      if (tenant !== null) return stores.inbox(tenant);
      throw new InvalidOperationError(
        'The webhook names no tenant. Add to its source where the tenant\'s key is, for example tenant: "{json:account}".',
      );
    },
    async wake({ tenant }) {
      if (tenant !== null && (wakeUp ?? context.fanOut) !== undefined) await wakeTenant(tenantKey(tenant));
    },
    workerParts: { ...settings.turns, tenants: stores, dispatchers },
    isQuarantined: dispatcher.isQuarantined,
    migrate: () => migrateTenants(stores),
    close: () => stores.close(),
  };
}

function openStores(
  { stores }: TenantSettings,
  { definition, resolveSecret, logger, signInAs }: TenantsContext,
) {
  const telemetry = omitUndefined({ metrics: definition.metrics, tracing: definition.tracing });
  const withoutTable = ({ table: _, ...rest }: { table?: string } = {}) => ({
    ...rest,
    ...telemetry,
    ...omitUndefined({ topics: definition.topics }),
  });
  const { open = openDatabase } = stores;
  return createTenantStores(
    {
      ...stores,
      discover: withDefaultTables(stores.discover, definition),
      open: async (url, limits) => requireKind(definition, await open(url, limits)),
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

/** Handlers that a function makes for each tenant need dispatchers for each tenant. Others take no parts. */
function dispatchersOf(context: TenantsContext): TenantDispatcherOptions["dispatchers"] {
  const dispatchers = (parts: AppParts): TenantDispatchers => appDispatchers(parts, context);
  const { definition } = context;
  const isPerTenant = [definition.handlers, definition.publishers].some((one) => typeof one === "function");
  return isPerTenant ? dispatchers : dispatchers({} as AppParts);
}

function toDispatchReport(report: FanOutReport): DispatchReport {
  const { inbox, outbox, turns, failed, quarantined, left, tenantBatchesSent } = report;
  const lengths = { failed: failed.length, quarantined: quarantined.length, left: left.length };
  return { inbox, outbox, more: left.length > 0, tenants: { turns, tenantBatchesSent, ...lengths } };
}

function toMaintenanceReport({ sums, left }: TenantMaintenanceReport): MaintenanceReport {
  const more = left.length > 0;
  return { inbox: { ...sums.inbox, more }, outbox: { ...sums.outbox, more } };
}

/** The report of several tenant batches, of which at most one is for dispatching. */
function mergedReports(first: DispatchReport, second: DispatchReport): DispatchReport {
  const [a, b] = [first.tenants!, second.tenants!];
  return {
    inbox: first.inbox ?? second.inbox,
    outbox: first.outbox ?? second.outbox,
    more: first.more || second.more,
    tenants: {
      turns: a.turns + b.turns,
      tenantBatchesSent: a.tenantBatchesSent + b.tenantBatchesSent,
      failed: a.failed + b.failed,
      quarantined: a.quarantined + b.quarantined,
      left: a.left + b.left,
    },
  };
}
