import type { Logger } from "../queue/logger.js";
import type { QueueStats } from "../queue/work-store.js";

interface Measured {
  stats(call: { readonly signal: AbortSignal }): Promise<QueueStats<string>>;
}

/** Counting looks at every row that is kept; whoever keeps very many has no line rather than a slow function. */
const longestMs = 5_000;

/**
 * One line per queue: how many messages are due, and since when. Both clouds' alarms on old messages are made of it, so
 * its names are part of infra/aws/alarms.yml and infra/azure/alerts.bicep. Dead messages have lines of their own.
 */
export async function logHealth(queues: Readonly<Record<string, Measured>>, logger: Logger): Promise<void> {
  for (const [queue, store] of Object.entries(queues)) {
    try {
      const { due, oldestDueAgeMs } = await store.stats({ signal: AbortSignal.timeout(longestMs) });
      logger.info("queue", { queue, due, oldestDueAgeMs: oldestDueAgeMs ?? 0 });
    } catch (error) {
      logger.warn("counting a queue failed", { queue, error: (error as Error)?.name ?? "Error" });
    }
  }
}
