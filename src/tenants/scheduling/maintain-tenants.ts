import { abortAfter } from "../../base/abort-after.js";
import type { Budget } from "../../base/budget.js";
import type { Logger } from "../../base/logger.js";
import { guardedMetrics, type Metrics } from "../../base/metrics.js";
import { InvalidOperationError } from "../../errors.js";
import {
  type MaintenanceResult,
  type PurgeWithinOptions,
  purgeWithin,
  reapWithin,
} from "../../queue/maintenance.js";
import type { TenantStores } from "../connections/tenant-stores.js";
import { type Due, poll } from "./poll.js";
import type { TenantRunResult } from "./run-tenants.js";
import { dispatchDefaults, type TenantDispatcher, type TenantWork } from "./tenant-dispatcher.js";

export interface TenantMaintenanceOptions {
  readonly dispatcher: Pick<TenantDispatcher, "each">;
  readonly pollTimeoutMs?: number | undefined;
  readonly retentions?: PurgeWithinOptions | undefined;
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
    const report = await maintain(budget, ids, reapWithin, async (stores, due) => {
      for (const queue of queues) {
        if (!due[queue]) continue; // the usual case: without a due message there is no age to read
        const ageMs = (await oldestDueAgeMs(stores, queue, pollTimeoutMs)) ?? 0;
        if (ageMs > oldest[queue].oldestDueAgeMs) oldest[queue] = { oldestDueAgeMs: ageMs, store: stores.id };
      }
    });
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
    maintain(budget, ids, (store, turnBudget) => purgeWithin(store, turnBudget, options.retentions));
}

type QueueWork = (store: TenantStores[Queue], turnBudget: Budget) => Promise<MaintenanceResult>;
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
        const result = await work(stores[queue], turnBudget);
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
