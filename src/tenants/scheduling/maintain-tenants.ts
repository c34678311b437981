import type { MaintenanceReport } from "../../app/maintenance-jobs.js";
import type { Budget } from "../../base/budget.js";
import type { Logger } from "../../base/logger.js";
import { type MaintenanceResult, purgeWithin, reapWithin } from "../../queue/maintenance.js";
import type { TenantStores } from "../connections/tenant-stores.js";
import { limited } from "./limited.js";
import { type Due, dueQuestion } from "./poll.js";
import type { TenantRunResult } from "./run-tenants.js";
import { dispatchDefaults, type TenantDispatcher } from "./tenant-dispatcher.js";

export interface MaintenanceOptions {
  readonly dispatcher: Pick<TenantDispatcher, "each">;
  readonly pollMs?: number | undefined;
  /** How long Done messages are kept. */
  readonly retentionMs?: number | undefined;
  readonly logger: Logger;
}

export interface TenantMaintenanceReport extends TenantRunResult {
  readonly sums: Readonly<Record<Queue, Sum>>;
}

export type TenantMaintenance = (budget: Budget, ids: readonly string[]) => Promise<TenantMaintenanceReport>;

type Queue = "inbox" | "outbox";
type Sum = Omit<MaintenanceResult, "more">;

const queues: readonly Queue[] = ["inbox", "outbox"];
const noSums = () => ({ inbox: { done: 0, dead: 0 }, outbox: { done: 0, dead: 0 } });

export const nothingMaintained: TenantMaintenanceReport = {
  turns: 0,
  failed: [],
  quarantined: [],
  left: [],
  sums: noSums(),
};

/** Takes back what was claimed by those who died, and says for how long the oldest message of all of them has waited. */
export function reapTenants(options: MaintenanceOptions): TenantMaintenance {
  const { pollMs = dispatchDefaults.pollMs, logger } = options;
  const maintain = maintenance(options);
  return async (budget, ids) => {
    const oldest = { inbox: noAge, outbox: noAge };
    const report = await maintain(budget, ids, reapWithin, async (stores, found) => {
      for (const queue of queues) {
        if (!found[queue]) continue; // nearly always: its age need not be asked for
        const ageMs = await limited(pollMs, (signal) => stores[queue].oldestDueAgeMs({ signal }));
        if ((ageMs ?? 0) > oldest[queue].oldestDueAgeMs)
          oldest[queue] = { oldestDueAgeMs: ageMs ?? 0, store: stores.id };
      }
    });
    // As of one queue, with the name of whose it is: the same alarm hears of it.
    if (report.turns > 0) for (const queue of queues) logger.info("queue", { queue, ...oldest[queue] });
    return report;
  };
}

const noAge: { readonly oldestDueAgeMs: number; readonly store?: string } = { oldestDueAgeMs: 0 };

/** Deletes what has been done for long enough. */
export function cleanUpTenants(options: MaintenanceOptions): TenantMaintenance {
  const retention = options.retentionMs === undefined ? {} : { retentionMs: options.retentionMs };
  const maintain = maintenance(options);
  return (budget, ids) => maintain(budget, ids, (store, limit) => purgeWithin(store, limit, retention));
}

type Work = (store: TenantStores[Queue], limit: Budget) => Promise<MaintenanceResult>;
type Afterwards = (stores: TenantStores, found: Due) => Promise<void>;

function maintenance({ dispatcher, pollMs = dispatchDefaults.pollMs }: MaintenanceOptions) {
  const due = dueQuestion();
  return async (
    budget: Budget,
    ids: readonly string[],
    work: Work,
    afterwards: Afterwards = async () => {},
  ): Promise<TenantMaintenanceReport> => {
    const sums = noSums();
    const oneTenant = async (stores: TenantStores, limit: Budget): Promise<boolean> => {
      // First of all a question that is cut off: the work itself may rightly take its time, and one that hangs has none.
      const found = await due(stores, pollMs);
      let more = false;
      for (const queue of queues) {
        const one = await work(stores[queue], limit);
        sums[queue].done += one.done;
        sums[queue].dead += one.dead;
        more ||= one.more;
      }
      if (!more) await afterwards(stores, found);
      return more;
    };
    const result = await dispatcher.each(budget, oneTenant, ids);
    return { ...result, sums };
  };
}

export const hasMaintained = ({ sums }: TenantMaintenanceReport): boolean =>
  queues.some((queue) => sums[queue].done + sums[queue].dead > 0);

export function toMaintenanceReport({ sums, left }: TenantMaintenanceReport): MaintenanceReport {
  const more = left.length > 0;
  return { inbox: { ...sums.inbox, more }, outbox: { ...sums.outbox, more } };
}
