import { errorGroupOf } from "../queue/error-group.js";

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
