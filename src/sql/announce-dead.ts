import { safeReason } from "../base/safe-reason.js";
import type { QueueShape } from "./queue-shape.js";
import { reasons } from "./reasons.js";
import type { ResolvedStoreOptions } from "./store-options.js";

/** Logs dead messages and calls `onDead` for each. Resolves when all calls have ended, and never rejects. */
export type AnnounceDead<Key> = (keys: readonly Key[], reason: string) => Promise<unknown>;

/**
 * Calls the listener for all of them at once. Most callers do not wait: a slow listener must not use up a lease that was
 * just given.
 */
export const announceDeadTo =
  <Key>(
    { logger, onDead }: Pick<ResolvedStoreOptions<Key>, "logger" | "onDead">,
    shape: Pick<QueueShape<Key, never, never>, "describe">,
  ): AnnounceDead<Key> =>
  (keys, reason) => {
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
