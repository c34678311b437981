import type { Budget } from "../base/budget.js";
import { type MaintenanceResult, purgeWithin, reapWithin } from "../queue/maintenance.js";
import type { AppDefinition } from "./app-definition.js";
import { logQueueAge } from "./log-queue-age.js";
import type { OpenApp } from "./open-app.js";
import { retentionsOf } from "./retentions.js";

export interface MaintenanceReport {
  readonly inbox: MaintenanceResult;
  readonly outbox: MaintenanceResult;
  /** The keys of the app's service, if it has one. */
  readonly service?: MaintenanceResult;
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

/** Deletes messages that have been done, and where the app says so dead, for longer than the retention; records of operations and keys of the service after theirs. */
export function cleanupJob(app: OpenApp): MaintenanceJob {
  const { definition, inbox, outbox, tenants } = app;
  if (tenants !== undefined) return tenants.cleanup;
  const options = retentionsOf(app);
  return async (budget) => ({
    inbox: await purgeWithin(inbox, budget, options),
    outbox: await purgeWithin(outbox, budget, options),
    ...(hasKeys(definition) && { service: await purgeKeys(app, budget) }),
  });
}

/** Another store than the app's database deletes its keys itself. */
const hasKeys = ({ service }: AppDefinition): boolean => service !== undefined && service.store === undefined;

async function purgeKeys(app: OpenApp, budget: Budget): Promise<MaintenanceResult> {
  const { serviceStore } = await import("./service-store.js"); // only for an app that has a service
  return purgeWithin({ purgeDone: serviceStore(app, app.db).purge }, budget);
}
