import type { Budget } from "../../base/async.js";
import { abortAfter, mapLimit } from "../../base/async.js";
import { omitUndefined } from "../../base/defined.js";
import type { Logger } from "../../base/logger.js";
import { guardedMetrics, type Metrics } from "../../base/telemetry.js";
import { InvalidOperationError } from "../../errors.js";
import {
  type MaintenanceResult,
  type PurgeWithinOptions,
  purgeWithin,
  reapWithin,
} from "../../queue/maintenance.js";
import { type MigrateResult, migrate } from "../../sql/migrate.js";
import { type Due, poll, type TenantStoreProvider, type TenantStores } from "../connections/tenant-stores.js";
import type { TenantRunResult } from "./run-tenants.js";
import { dispatchDefaults, type TenantDispatcher, type TenantWork } from "./tenant-dispatcher.js";

interface TenantMaintenanceOptions {
  readonly dispatcher: Pick<TenantDispatcher, "each">;
  readonly pollTimeoutMs?: number | undefined;
  readonly retentions?: Readonly<Record<Queue, PurgeWithinOptions>> | undefined;
  readonly logger: Logger;
  readonly metrics?: Metrics | undefined;
}

export interface TenantMaintenanceReport extends TenantRunResult {
  readonly sums: Readonly<Record<Queue, Sum>>;
}

export type TenantMaintenance = (budget: Budget, ids: readonly string[]) => Promise<TenantMaintenanceReport>;

type Queue = "inbox" | "outbox";
type Sum = Omit<MaintenanceResult, "more">;

const queues: readonly Queue[] = ["inbox", "outbox"];
const noSums = () => ({ inbox: { done: 0, dead: 0 }, outbox: { done: 0, dead: 0 } });

export const emptyMaintenanceReport: TenantMaintenanceReport = {
  turns: 0,
  failed: [],
  quarantined: [],
  left: [],
  sums: noSums(),
};

/** Ends the expired leases of all tenants, and logs the age of the oldest due message among them. */
export function reapTenants(options: TenantMaintenanceOptions): TenantMaintenance {
  const { pollTimeoutMs = dispatchDefaults.pollTimeoutMs, logger } = options;
  const metrics = options.metrics && guardedMetrics(options.metrics);
  const maintain = maintenance(options);
  return async (budget, ids) => {
    const oldest = { inbox: noAge, outbox: noAge };
    const report = await maintain(
      budget,
      ids,
      (store, turnBudget) => reapWithin(store, turnBudget),
      async (stores, due) => {
        for (const queue of queues) {
          if (!due[queue]) continue; // the usual case: without a due message there is no age to read
          const ageMs = (await oldestDueAgeMs(stores, queue, pollTimeoutMs)) ?? 0;
          if (ageMs > oldest[queue].oldestDueAgeMs)
            oldest[queue] = { oldestDueAgeMs: ageMs, store: stores.id };
        }
      },
    );
    // The same line as for a single database, plus the tenant's name, so that the same alarm reads it.
    if (report.turns === 0) return report;
    for (const queue of queues) {
      logger.info("queue", { queue, ...oldest[queue] });
      metrics?.gauge("oncebox.queue.oldest_due_age", oldest[queue].oldestDueAgeMs, { queue });
    }
    return report;
  };
}

const noAge: { readonly oldestDueAgeMs: number; readonly store?: string } = { oldestDueAgeMs: 0 };

const oldestDueAgeMs = (stores: TenantStores, queue: Queue, withinMs: number): Promise<number | null> =>
  abortAfter(
    withinMs,
    (signal) => stores[queue].oldestDueAgeMs({ signal }),
    () =>
      new InvalidOperationError(
        `The ${queue} did not return the age of its oldest message within ${withinMs} ms (pollTimeoutMs).`,
      ),
  );

/** Deletes the messages of all tenants that have been done, or dead, for longer than the retention. */
export function cleanUpTenants(options: TenantMaintenanceOptions): TenantMaintenance {
  const maintain = maintenance(options);
  return (budget, ids) =>
    maintain(budget, ids, (store, turnBudget, queue) =>
      purgeWithin(store, turnBudget, options.retentions?.[queue]),
    );
}

type QueueWork = (store: TenantStores[Queue], turnBudget: Budget, queue: Queue) => Promise<MaintenanceResult>;
type Afterwards = (stores: TenantStores, due: Due) => Promise<void>;

function maintenance({
  dispatcher,
  pollTimeoutMs = dispatchDefaults.pollTimeoutMs,
}: TenantMaintenanceOptions) {
  return async (
    budget: Budget,
    ids: readonly string[],
    work: QueueWork,
    afterwards: Afterwards = async () => {},
  ): Promise<TenantMaintenanceReport> => {
    const sums = noSums();
    const maintainTenant: TenantWork = async (stores, turnBudget) => {
      // The poll finds a database that hangs within pollTimeoutMs. The work itself may rightly take longer.
      const due = await poll(stores, pollTimeoutMs);
      let more = false;
      for (const queue of queues) {
        const result = await work(stores[queue], turnBudget, queue);
        sums[queue].done += result.done;
        sums[queue].dead += result.dead;
        more ||= result.more;
      }
      if (!more) await afterwards(stores, due);
      return more;
    };
    const result = await dispatcher.each(budget, maintainTenant, ids);
    return { ...result, sums };
  };
}

export const hasMaintained = ({ sums }: TenantMaintenanceReport): boolean =>
  queues.some((queue) => sums[queue].done + sums[queue].dead > 0);

const migrationsAtOnce = 4;
/** Tenants that the error names; of the others it says how many there are. */
const maxNamed = 20;

/** Migrates the tables of all tenants. A tenant that fails does not stop the others; the error at the end names it. */
export async function migrateTenants(
  tenants: Pick<TenantStoreProvider, "distinctStores" | "stores">,
): Promise<MigrateResult> {
  const ids = await tenants.distinctStores();
  const results = new Map<string, MigrateResult>();
  const failures = new Map<string, unknown>();
  await mapLimit(ids, migrationsAtOnce, async (id) => {
    try {
      const { db, tables } = await tenants.stores(id);
      results.set(id, await migrate(db, omitUndefined(tables)));
    } catch (error) {
      failures.set(id, error);
    }
  });
  if (failures.size > 0) throw notMigrated(failures, ids.length);
  const collect = (of: (result: MigrateResult) => readonly string[]) =>
    ids.flatMap((id) => of(results.get(id)!).map((text) => `${id}: ${text}`));
  return { applied: collect((result) => result.applied), warnings: collect((result) => result.warnings) };
}

function notMigrated(failures: ReadonlyMap<string, unknown>, all: number): InvalidOperationError {
  const named = [...failures.keys()].slice(0, maxNamed).map((id) => JSON.stringify(id));
  const others = failures.size - named.length;
  const [first, ...more] = failures.values();
  return new InvalidOperationError(
    `${failures.size} of ${all} tenants could not be migrated: ${named.join(", ")}${others > 0 ? ` and ${others} more` : ""}. Solve what the cause says, and migrate again.`,
    { cause: more.length === 0 ? first : new AggregateError([first, ...more]) },
  );
}
