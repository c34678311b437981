import type { AwsSettings } from "../../config/aws-settings.js";
import { type FanOut, tenantBatchMessage } from "../../tenants/fan-out/tenant-batch.js";
import { messageSender } from "./message-sender.js";

const longestCallMs = 5_000;

/**
 * The function or queue that wakes a dispatcher also starts workers for tenant batches. Undefined without one: one
 * function serves all tenants.
 */
export function awsFanOut(settings: AwsSettings): FanOut | undefined {
  const sender = messageSender(settings, 3);
  if (sender === undefined) return undefined;
  return {
    prepare: sender.prepare,
    send: (batch) => sender.send(tenantBatchMessage(batch), longestCallMs),
  };
}
