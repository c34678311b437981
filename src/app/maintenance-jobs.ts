import type { Budget } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import type { Logger } from "../base/logger.js";
import type { Metrics } from "../base/telemetry.js";
import {
  type MaintenanceResult,
  type MeasuredQueue,
  measureQueue,
  type PurgeWithinOptions,
  purgeWithin,
  reapWithin,
} from "../queue/maintenance.js";
import type { QueueKind } from "../queue/work-store.js";
import type { AppDefinition } from "./definition.js";
import type { AppContext, OpenApp } from "./open-app.js";

/** What a reap or a clean-up of an app did, by queue. */
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
  const kept = retentionsOf(app);
  return async (budget) => ({
    inbox: await purgeWithin(inbox, budget, kept.inbox),
    outbox: await purgeWithin(outbox, budget, kept.outbox),
    ...(hasKeys(definition) && { service: await purgeKeys(app, budget) }),
  });
}

/** Another store than the app's database deletes its keys itself. */
const hasKeys = ({ service }: AppDefinition): boolean => service !== undefined && service.store === undefined;

async function purgeKeys(app: OpenApp, budget: Budget): Promise<MaintenanceResult> {
  const { serviceStore } = await import("./service-store.js"); // only for an app that has a service
  return purgeWithin({ purgeDone: serviceStore(app, app.db).purge }, budget);
}

/** How long an app keeps what the clean-up deletes, by queue. The environment wins. */
export function retentionsOf({
  definition: { retentionMs, retentions = [], deadRetentionMs, operationRetentionMs },
  environment,
}: Pick<AppContext, "definition" | "environment">): Readonly<Record<QueueKind, PurgeWithinOptions>> {
  const ages = omitUndefined({
    retentionMs,
    deadRetentionMs: environment.deadRetentionMs ?? deadRetentionMs,
    operationRetentionMs,
  });
  const of = (kind: QueueKind): PurgeWithinOptions => ({
    ...ages,
    retentions: retentions.flatMap(({ queue = kind, ...retention }) => (queue === kind ? [retention] : [])),
  });
  return { inbox: of("inbox"), outbox: of("outbox") };
}

/** A database that takes longer raises other alarms. */
const longestMs = 5_000;

/**
 * Logs one line per queue: for how long its oldest due message has waited. The alarms of both clouds read it, so its
 * names are also in infra/aws/alarms.yml and infra/azure/alerts.bicep. Dead messages have lines of their own. With
 * `metrics`, the queue's gauges are written too.
 */
async function logQueueAge(
  queues: Readonly<Record<string, MeasuredQueue>>,
  logger: Logger,
  metrics?: Metrics,
): Promise<void> {
  for (const [queue, store] of Object.entries(queues)) {
    const call = { signal: AbortSignal.timeout(longestMs) };
    const unknown = (what: string, error: unknown): void =>
      logger.warn(`the queue's ${what} is unknown`, { queue, error: (error as Error)?.name ?? "Error" });
    try {
      const age = await store.oldestDueAgeMs(call);
      logger.info("queue", { queue, oldestDueAgeMs: age ?? 0 });
    } catch (error) {
      unknown("oldest age", error);
    }
    if (metrics !== undefined)
      await measureQueue(store, metrics, call).catch((error) => unknown("size", error));
  }
}
