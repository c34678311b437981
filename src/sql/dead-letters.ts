import { safeReason } from "../base/logger.js";
import { errorGroupOf } from "../queue/message.js";
import type { QueueShape } from "./message-rows.js";
import type { ResolvedStoreOptions } from "./store-options.js";

/** Why the database itself made a message dead or counted an attempt: the text of `lastError` then. */
export const reasons = {
  leaseExpired: "The lease expired: its worker crashed, was cut off, or took too long without renewing.",
  expired: "It was not handled before its expiresAt.",
} as const;

/** The error group of a reason. A function, because a hash of each would be 1 ms of every cold start. */
export const reasonGroup = (reason: keyof typeof reasons): string => errorGroupOf(reasons[reason])!;

/** The text between why a dead message expired and the error that it died of. */
export const beforeThat = " Before that: ";

/** Whether an error says that its message has expired, alone or before an earlier error. */
export const saysExpired = (error: string | null): boolean => error?.includes(reasons.expired) ?? false;

/** Of a row with the verdict `expired` or `exhausted`. */
export const reasonOf = (verdict: unknown): string =>
  verdict === "expired" ? reasons.expired : reasons.leaseExpired;

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
