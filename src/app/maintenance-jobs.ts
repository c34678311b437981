import type { Budget } from "../base/budget.js";
import { type MaintenanceResult, purgeWithin, reapWithin } from "../queue/maintenance.js";
import type { OpenApp } from "./open-app.js";
import { logHealth } from "./queue-health.js";

export interface MaintenanceReport {
  readonly inbox: MaintenanceResult;
  readonly outbox: MaintenanceResult;
}

export type MaintenanceJob = (budget: Budget) => Promise<MaintenanceReport>;

/** Takes back what was claimed by those who died, and says how the queues are. */
export function reapJob({ inbox, outbox, logger, tenants }: OpenApp): MaintenanceJob {
  if (tenants !== undefined) return tenants.reap;
  return async (budget) => {
    const report = { inbox: await reapWithin(inbox, budget), outbox: await reapWithin(outbox, budget) };
    if (budget.remainingMs() > healthMs) await logHealth({ inbox, outbox }, logger);
    return report;
  };
}

/** Twice what it takes at most for each of the queues. */
const healthMs = 12_000;

/** Deletes what has been done for long enough. */
export function cleanupJob({ definition, inbox, outbox, tenants }: OpenApp): MaintenanceJob {
  if (tenants !== undefined) return tenants.cleanup;
  const retentionMs = definition.retentionMs === undefined ? {} : { retentionMs: definition.retentionMs };
  return async (budget) => ({
    inbox: await purgeWithin(inbox, budget, retentionMs),
    outbox: await purgeWithin(outbox, budget, retentionMs),
  });
}
