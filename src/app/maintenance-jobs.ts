import type { Budget } from "../base/budget.js";
import { defined } from "../base/defined.js";
import { type MaintenanceResult, purgeWithin, reapWithin } from "../queue/maintenance.js";
import { logQueueAge } from "./log-queue-age.js";
import type { OpenApp } from "./open-app.js";

export interface MaintenanceReport {
  readonly inbox: MaintenanceResult;
  readonly outbox: MaintenanceResult;
}

export type MaintenanceJob = (budget: Budget) => Promise<MaintenanceReport>;

/** Ends expired leases, and logs the age of each queue's oldest due message. */
export function reapJob({ inbox, outbox, logger, tenants, definition }: OpenApp): MaintenanceJob {
  if (tenants !== undefined) return tenants.reap;
  return async (budget) => {
    const report = { inbox: await reapWithin(inbox, budget), outbox: await reapWithin(outbox, budget) };
    if (budget.remainingMs() > logAgeMs) await logQueueAge({ inbox, outbox }, logger, definition.metrics);
    return report;
  };
}

/** The longest time that it takes for both queues, and something to spare. */
const logAgeMs = 12_000;

/** Deletes messages that have been Done for longer than the retention. */
export function cleanupJob({ definition, inbox, outbox, tenants }: OpenApp): MaintenanceJob {
  if (tenants !== undefined) return tenants.cleanup;
  const options = defined({ retentionMs: definition.retentionMs });
  return async (budget) => ({
    inbox: await purgeWithin(inbox, budget, options),
    outbox: await purgeWithin(outbox, budget, options),
  });
}
