/** Sends a share and reads it back: in a process of its own, because trust in a certificate is given at its start. */
import { QueueServiceClient } from "@azure/storage-queue";
import { azureFanOut } from "../../../src/adapters/azure/fan-out.js";
import { readAzureSettings } from "../../../src/config/azure-settings.js";
import type { TenantBatch } from "../../../src/tenants/index.js";

const settings = readAzureSettings();
const share = JSON.parse(process.argv[2]!) as TenantBatch;
await azureFanOut(settings)!.send(share);
const service = QueueServiceClient.fromConnectionString(process.env.AzureWebJobsStorage!);
const { receivedMessageItems: messages } = await service
  .getQueueClient(settings.wakeUp!.queue)
  .receiveMessages();
console.log(JSON.stringify(messages.map((message) => message.messageText)));
