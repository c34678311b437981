import { safeReason } from "../base/safe-reason.js";
import type { QueueShape } from "./queue-shape.js";
import { reasons } from "./reasons.js";
import type { ResolvedStoreOptions } from "./store-options.js";

/** Logs dead messages and calls `onDead` for each. */
export type AnnounceDead<Key> = (keys: readonly Key[], reason: string) => void;

/** Calls the listener for all of them without waiting: a slow listener must not use up a lease that was just given. */
export const announceDeadTo =
  <Key>(
    { logger, onDead }: Pick<ResolvedStoreOptions<Key>, "logger" | "onDead">,
    shape: Pick<QueueShape<Key, never, never>, "describe">,
  ): AnnounceDead<Key> =>
  (keys, reason) => {
    for (const message of keys) {
      // A handler's own error may quote the payload; it is in lastError, not in the log.
      const known = Object.values<string>(reasons).includes(reason);
      logger.warn("message is dead", { ...shape.describe(message), ...(known ? { reason } : {}) });
      const failed = (error: unknown): void =>
        logger.error("onDead failed", { ...shape.describe(message), error: safeReason(error) });
      try {
        Promise.resolve(onDead?.({ message, reason })).catch(failed);
      } catch (error) {
        failed(error);
      }
    }
  };
