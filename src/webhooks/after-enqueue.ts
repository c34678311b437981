import type { Logger } from "../base/logger.js";
import { safeReason } from "../base/safe-reason.js";
import type { ReceivedWebhook } from "./route-options.js";

/** Calls the hook and waits for it, but not for ever, and never fails: the message is committed. */
export function afterEnqueueCaller(
  hook: (webhook: ReceivedWebhook) => unknown,
  longestMs: number,
  logger: Logger,
): (webhook: ReceivedWebhook) => Promise<void> {
  return async (webhook) => {
    const complain = (error: string) =>
      logger.warn("afterEnqueue failed; the message is safe", { ...webhook, error });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(() => resolve(complain(`still running after ${longestMs} ms`)), longestMs);
    });
    const told = (async () => hook(webhook))().then(
      () => {},
      (error) => complain(safeReason(error)),
    );
    await Promise.race([told, late]);
    clearTimeout(timer);
  };
}
