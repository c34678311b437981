import type { Budget } from "../queue/budget.js";
import { type MaintenanceResult, purgeWithin, reapWithin } from "../queue/maintenance.js";
import type { OpenApp } from "./open-app.js";

export interface MaintenanceReport {
  readonly inbox: MaintenanceResult;
  readonly outbox: MaintenanceResult;
}

export type MaintenanceJob = (budget: Budget) => Promise<MaintenanceReport>;

/** Takes back what was claimed by those who died. */
export const reapJob =
  ({ inbox, outbox }: OpenApp): MaintenanceJob =>
  async (budget) => ({ inbox: await reapWithin(inbox, budget), outbox: await reapWithin(outbox, budget) });

/** Deletes what has been done for long enough. */
export function cleanupJob({ definition, inbox, outbox }: OpenApp): MaintenanceJob {
  const retentionMs = definition.retentionMs === undefined ? {} : { retentionMs: definition.retentionMs };
  return async (budget) => ({
    inbox: await purgeWithin(inbox, budget, retentionMs),
    outbox: await purgeWithin(outbox, budget, retentionMs),
  });
}
