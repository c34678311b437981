import type { Logger } from "../base/logger.js";
import type { Metrics } from "../base/metrics.js";
import { type MeasuredQueue, measureQueue } from "../queue/measure-queue.js";

/** A database that takes longer raises other alarms. */
const longestMs = 5_000;

/**
 * Logs one line per queue: for how long its oldest due message has waited. The alarms of both clouds read it, so its
 * names are also in infra/aws/alarms.yml and infra/azure/alerts.bicep. Dead messages have lines of their own. With
 * `metrics`, the queue's gauges are written too.
 */
export async function logQueueAge(
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
