import type { Logger } from "../base/logger.js";
import { safeReason } from "../base/safe-reason.js";
import { withinTime } from "../base/within-time.js";
import { InvalidOperationError } from "../errors.js";
import type { ReceivedWebhook } from "./route-options.js";

/**
 * Calls the hook and waits for it, but no longer than `longestMs`, nor than the time that the request has left. Never
 * rejects: the message is committed.
 */
export function afterEnqueueCaller(
  hook: (webhook: ReceivedWebhook) => unknown,
  longestMs: number,
  logger: Logger,
): (webhook: ReceivedWebhook, mostMs: number) => Promise<void> {
  return async (webhook, mostMs) => {
    const ms = Math.min(longestMs, Math.round(mostMs));
    const tooLate = () => new InvalidOperationError(`afterEnqueue was still running after ${ms} ms.`);
    try {
      await withinTime(ms, (async () => hook(webhook))(), tooLate);
    } catch (error) {
      logger.warn("afterEnqueue failed; the message is safe", { ...webhook, error: safeReason(error) });
    }
  };
}
