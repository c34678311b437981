import type { Logger } from "../../base/logger.js";
import type { WakeQueue } from "../../config/azure-settings.js";
import { openQueue } from "./open-queue.js";

/** A storage account that takes longer raises other alerts. */
const longestMs = 5_000;

/**
 * Logs how many messages wait in a poison queue, if there are any. The host moves a message there when its function has failed
 * five times, and tells nobody. An alert reads the line, so its names are also in infra/azure/alerts.bicep.
 */
export async function logPoisonQueues(queues: readonly WakeQueue[], logger: Logger): Promise<void> {
  for (const { queue, storage } of queues) {
    try {
      const client = await openQueue(storage, queue);
      const { approximateMessagesCount: messages = 0 } = await client.getProperties({
        abortSignal: AbortSignal.timeout(longestMs),
      });
      if (messages > 0) logger.warn("poison queue", { queue, messages });
    } catch (error) {
      // The host makes the queue when it has the first message for it.
      if ((error as { statusCode?: unknown }).statusCode === 404) continue;
      logger.warn("the poison queue's length is unknown", {
        queue,
        error: (error as Error)?.name ?? "Error",
      });
    }
  }
}
