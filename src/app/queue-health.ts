import type { Logger } from "../base/logger.js";

interface Measured {
  oldestDueAgeMs(call: { readonly signal: AbortSignal }): Promise<number | null>;
}

/** A database that does not answer in this time has other alarms. */
const longestMs = 5_000;

/**
 * One line per queue: for how long its oldest due message has waited. Both clouds' alarms on old messages are made of it,
 * so its names are part of infra/aws/alarms.yml and infra/azure/alerts.bicep. Dead messages have lines of their own.
 */
export async function logHealth(queues: Readonly<Record<string, Measured>>, logger: Logger): Promise<void> {
  for (const [queue, store] of Object.entries(queues)) {
    try {
      const age = await store.oldestDueAgeMs({ signal: AbortSignal.timeout(longestMs) });
      logger.info("queue", { queue, oldestDueAgeMs: age ?? 0 });
    } catch (error) {
      logger.warn("the queue's oldest age is unknown", { queue, error: (error as Error)?.name ?? "Error" });
    }
  }
}
