/** Why the database itself made a message dead or counted an attempt: the text of `lastError` then. */
export const reasons = {
  leaseExpired: "The lease expired: its worker crashed, was cut off, or took too long without renewing.",
  expired: "It was not handled before its expiresAt.",
} as const;

/** Of a row with the verdict `expired` or `exhausted`. */
export const reasonOf = (verdict: unknown): string =>
  verdict === "expired" ? reasons.expired : reasons.leaseExpired;
