import { safeReason } from "../base/safe-reason.js";
import type { QueueShape } from "./queue-shape.js";
import { reasons, saysExpired } from "./reasons.js";
import type { ResolvedStoreOptions } from "./store-options.js";

/** Logs dead messages and calls `onDead` for each. Resolves when all calls have ended, and never rejects. */
export type AnnounceDead<Key> = (keys: readonly Key[], reason: string) => Promise<unknown>;

/**
 * Calls the listener for all of them at once. Most callers do not wait: a slow listener must not use up a lease that was
 * just given.
 */
export const announceDeadTo =
  <Key>(
    {
      logger,
      metrics,
      queue,
      onDead,
    }: Pick<ResolvedStoreOptions<Key>, "logger" | "metrics" | "queue" | "onDead">,
    shape: Pick<QueueShape<Key, never, never>, "describe">,
  ): AnnounceDead<Key> =>
  (keys, reason) => {
    if (keys.length > 0) metrics?.count("oncebox.dead", keys.length, { queue, reason: whyDead(reason) });
    const told = keys.map(async (message) => {
      // A handler's own error may quote the payload; it is in lastError, not in the log.
      const known = Object.values<string>(reasons).includes(reason);
      logger.warn("message is dead", { ...shape.describe(message), ...(known ? { reason } : {}) });
      try {
        await onDead?.({ message, reason });
      } catch (error) {
        logger.error("onDead failed", { ...shape.describe(message), error: safeReason(error) });
      }
    });
    return Promise.all(told);
  };

function whyDead(reason: string): "expired" | "crashed" | "failed" {
  if (saysExpired(reason)) return "expired";
  return reason === reasons.leaseExpired ? "crashed" : "failed";
}
