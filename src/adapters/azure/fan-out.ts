import type { AzureSettings } from "../../config/azure-settings.js";
import { type FanOut, tenantBatchMessage } from "../../tenants/fan-out/tenant-batch.js";
import { queueSender } from "./queue-sender.js";

/** The queue that wakes a dispatcher also starts workers for tenant batches. Undefined without one: one function serves all tenants. */
export function azureFanOut({ wakeUp }: AzureSettings): FanOut | undefined {
  if (wakeUp === undefined) return undefined;
  const { send, prepare } = queueSender(wakeUp.storage, wakeUp.queue);
  return { prepare, send: (batch) => send(tenantBatchMessage(batch)) };
}
