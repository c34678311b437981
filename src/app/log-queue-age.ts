import type { Logger } from "../base/logger.js";

interface Measured {
  oldestDueAgeMs(call: { readonly signal: AbortSignal }): Promise<number | null>;
}

/** A database that takes longer raises other alarms. */
const longestMs = 5_000;

/**
 * Logs one line per queue: for how long its oldest due message has waited. The alarms of both clouds read it, so its
 * names are also in infra/aws/alarms.yml and infra/azure/alerts.bicep. Dead messages have lines of their own.
 */
export async function logQueueAge(queues: Readonly<Record<string, Measured>>, logger: Logger): Promise<void> {
  for (const [queue, store] of Object.entries(queues)) {
    try {
      const age = await store.oldestDueAgeMs({ signal: AbortSignal.timeout(longestMs) });
      logger.info("queue", { queue, oldestDueAgeMs: age ?? 0 });
    } catch (error) {
      logger.warn("the queue's oldest age is unknown", { queue, error: (error as Error)?.name ?? "Error" });
    }
  }
}
