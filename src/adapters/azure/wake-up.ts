import type { QueueClient, StoragePipelineOptions } from "@azure/storage-queue";
import type { WakeUp } from "../../app/wake-up.js";
import { memoisePromise } from "../../base/async.js";
import type { Logger } from "../../base/logger.js";
import { requirePackage } from "../../base/require-package.js";
import type { AzureSettings, QueueStorage, WakeQueue } from "../../config/azure-settings.js";
import { type FanOut, tenantBatchMessage } from "../../tenants/fan-out/tenant-batch.js";
import { azureCredential } from "./key-vault.js";

const message = JSON.stringify({ oncebox: "wake-up" });

/** Wakes the dispatch function by a message in a queue. Undefined when the settings name no queue. */
export function azureWakeUp({ wakeUp }: Pick<AzureSettings, "wakeUp">): WakeUp | undefined {
  if (wakeUp === undefined) return undefined;
  const { send } = queueSender(wakeUp);
  return { wake: () => send(message) };
}

/** The queue that wakes a dispatcher also starts workers for tenant batches. Undefined without one: one function serves all tenants. */
export function azureFanOut({ wakeUp }: AzureSettings): FanOut | undefined {
  if (wakeUp === undefined) return undefined;
  const { send, prepare } = queueSender(wakeUp);
  return { prepare, send: (batch) => send(tenantBatchMessage(batch)) };
}

/** Limit of one call, so that a call that hangs does not block later ones. */
const maxCallMs = 2_000;
/** In seconds. By then the timer has started the function anyway. */
const messageTimeToLive = 120;

/** Sends texts to a queue, and creates the queue if it does not exist. */
function queueSender({ storage, queue: name }: WakeQueue) {
  requirePackage("@azure/storage-queue", `The queue ${name}`);
  const queue = memoisePromise(() => openQueue(storage, name));
  return {
    /** Loads the Azure client, which takes time. */
    prepare: () => void queue().catch(() => {}), // `send` tries again and reports it
    async send(text: string): Promise<void> {
      const client = await queue();
      const abortSignal = AbortSignal.timeout(maxCallMs);
      // The queue trigger expects base64 unless host.json says otherwise.
      const message = Buffer.from(text).toString("base64");
      const send = () => client.sendMessage(message, { messageTimeToLive, abortSignal });
      try {
        await send();
      } catch (error) {
        if ((error as { code?: unknown }).code !== "QueueNotFound") throw error;
        await client.createIfNotExists({ abortSignal });
        await send();
      }
    },
  };
}

/** A storage account that takes longer raises other alerts. */
const longestMs = 5_000;

/**
 * Logs how many messages wait in a poison queue, if there are any. The host moves a message there when its function has failed
 * five times, and reports it nowhere. An alert reads the line, so its names are also in infra/azure/alerts.bicep.
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

/** The client's default waits 4 s before it tries again. */
const pipeline: StoragePipelineOptions = { retryOptions: { maxTries: 2, retryDelayInMs: 50 } };

/** Loads the Azure client. */
async function openQueue(storage: QueueStorage, name: string): Promise<QueueClient> {
  const { QueueServiceClient } = await import("@azure/storage-queue");
  const service =
    "connectionString" in storage
      ? QueueServiceClient.fromConnectionString(storage.connectionString, pipeline)
      : new QueueServiceClient(storage.queueServiceUrl, await azureCredential(storage.clientId), pipeline);
  return service.getQueueClient(name);
}
