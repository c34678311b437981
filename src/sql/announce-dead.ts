import { safeReason } from "../base/safe-reason.js";
import type { QueueShape } from "./queue-shape.js";
import { reasons } from "./reasons.js";
import type { ResolvedStoreOptions } from "./store-options.js";

/** Logs and tells `onDead`. */
export type AnnounceDead<Key> = (keys: readonly Key[], reason: string) => void;

/** Tells of all of them at once and waits for none: a slow listener must not use up a lease that was just given. */
export const announceDeadTo =
  <Key>(
    { logger, onDead }: Pick<ResolvedStoreOptions<Key>, "logger" | "onDead">,
    shape: Pick<QueueShape<Key, never, never>, "describe">,
  ): AnnounceDead<Key> =>
  (keys, reason) => {
    for (const message of keys) {
      // A handler's own words may quote the payload; they are in lastError, not in the log.
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
