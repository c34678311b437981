import type { QueueClient, StoragePipelineOptions } from "@azure/storage-queue";
import type { QueueStorage } from "../../config/azure-settings.js";
import { azureCredential } from "./credential.js";

/** The client's default waits 4 s before it tries again. */
const pipeline: StoragePipelineOptions = { retryOptions: { maxTries: 2, retryDelayInMs: 50 } };

/** Loads the Azure client. */
export async function openQueue(storage: QueueStorage, name: string): Promise<QueueClient> {
  const { QueueServiceClient } = await import("@azure/storage-queue");
  const service =
    "connectionString" in storage
      ? QueueServiceClient.fromConnectionString(storage.connectionString, pipeline)
      : new QueueServiceClient(storage.queueServiceUrl, await azureCredential(storage.clientId), pipeline);
  return service.getQueueClient(name);
}
