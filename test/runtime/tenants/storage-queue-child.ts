/** Sends a tenant batch and reads it back: in a process of its own, because Node reads trusted certificates at its start. */
import { QueueServiceClient } from "@azure/storage-queue";
import { azureFanOut } from "../../../src/adapters/azure/wake-up.js";
import type { TenantBatch } from "../../../src/app/tenants.js";
import { readAzureSettings } from "../../../src/config/azure-settings.js";

const settings = readAzureSettings();
const batch = JSON.parse(process.argv[2]!) as TenantBatch;
await azureFanOut(settings)!.send(batch);
const service = QueueServiceClient.fromConnectionString(process.env.AzureWebJobsStorage!);
const { receivedMessageItems: messages } = await service
  .getQueueClient(settings.wakeUp!.queue)
  .receiveMessages();
console.log(JSON.stringify(messages.map((message) => message.messageText)));
