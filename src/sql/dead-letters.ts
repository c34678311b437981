import { safeReason } from "../base/logger.js";
import { errorGroupOf } from "../queue/message.js";
import type { KeyShape } from "./message-content.js";
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

export const deadLogLine = "message is dead";

/**
 * Logs dead messages and calls `onDead` for all of them at once. Resolves when all calls have ended, and never rejects. Most
 * callers do not wait: a slow listener must not use up a lease that was just given.
 */
export async function announceDead<Key>(
  { options, shape }: Announced<Key>,
  keys: readonly Key[],
  reason: string,
): Promise<void> {
  const { logger, metrics, queue, onDead } = options;
  if (keys.length > 0) metrics?.count("oncebox.dead", keys.length, { queue, reason: whyDead(reason) });
  // A handler's own error may quote the payload; it is in lastError, not in the log.
  const isOwnReason = Object.values<string>(reasons).includes(reason);
  const announcing = keys.map(async (message) => {
    logger.warn(deadLogLine, { ...shape.describe(message), ...(isOwnReason ? { reason } : {}) });
    try {
      await onDead?.({ message, reason });
    } catch (error) {
      logger.error("onDead failed", { ...shape.describe(message), error: safeReason(error) });
    }
  });
  await Promise.all(announcing);
}

interface Announced<Key> {
  readonly options: Pick<ResolvedStoreOptions<Key>, "logger" | "metrics" | "queue" | "onDead">;
  readonly shape: Pick<KeyShape<Key>, "describe">;
}

function whyDead(reason: string): "expired" | "crashed" | "failed" {
  if (saysExpired(reason)) return "expired";
  return reason === reasons.leaseExpired ? "crashed" : "failed";
}
