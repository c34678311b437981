import type { AwsSettings } from "../../config/aws-settings.js";
import { type FanOut, tenantBatchMessage } from "../../tenants/fan-out/tenant-batch.js";
import { dispatchSender } from "./dispatch-sender.js";

/** Sends tenant batches to the dispatch function. Undefined when the settings name no way to do so: one function does it all. */
export function awsFanOut(settings: AwsSettings): FanOut | undefined {
  const sender = dispatchSender(settings, { maxCallMs: 5_000, maxAttempts: 3 });
  if (sender === undefined) return undefined;
  return { prepare: sender.prepare, send: (batch) => sender.send(tenantBatchMessage(batch)) };
}
