/** Why the database itself made a message dead or counted an attempt: what `lastError` then says. */
export const reasons = {
  leaseExpired: "The lease expired: its worker crashed, was cut off, or took too long without renewing.",
  expired: "It was not handled before its expiresAt.",
} as const;
