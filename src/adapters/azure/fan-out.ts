import type { AzureSettings } from "../../config/azure-settings.js";
import { type FanOut, tenantBatchMessage } from "../../tenants/fan-out/tenant-batch.js";
import { queueSender } from "./queue-sender.js";

/** The queue that wakes a dispatcher also starts workers for shares of tenants; without one, one function does it all. */
export function azureFanOut({ wakeUp }: AzureSettings): FanOut | undefined {
  if (wakeUp === undefined) return undefined;
  const { send, prepare } = queueSender(wakeUp.storage, wakeUp.queue);
  return { prepare, send: (share) => send(tenantBatchMessage(share)) };
}
