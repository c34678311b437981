import type { WantedLease } from "../checked-inbox-store.js";

/** A key as a document. Times are the server's. */
export interface KeyDocument {
  readonly _id: string;
  readonly processedAt?: Date | null;
  /** The lease that finished it. */
  readonly processedBy?: string | null;
  readonly leaseId?: string | null;
  readonly leaseUntil?: Date | null;
  readonly owner?: string | null;
  readonly attempts?: number;
  readonly firstSeenAt: Date;
  readonly lastSeenAt: Date;
  /** The TTL index removes the document after this time. */
  readonly expiresAt: Date;
}

export type Expression = unknown;
export type Pipeline = readonly Readonly<Record<string, Expression>>[];

/** Values of callers stand behind $literal: an owner such as "$processedBy" would be read as a field. */
const literal = (value: unknown): Expression => ({ $literal: value });
const later = (time: Expression, ms: number): Expression => ({ $add: [time, ms] });

const isProcessed: Expression = { $ne: [{ $ifNull: ["$processedAt", null] }, null] };
const isHeldAt = (now: Expression): Expression => ({
  $gt: [{ $ifNull: ["$leaseUntil", new Date(0)] }, now],
});

const nothing: Expression = literal({});
const merged = (...changes: readonly Expression[]): Pipeline => [
  { $replaceWith: { $mergeObjects: ["$$ROOT", ...changes] } },
];

/**
 * Leases a free or new key. The document afterwards tells who holds it: the lease id was made for this call. A processed key
 * that is asked for is kept for another retention, since its broker still delivers it.
 */
export function begin(lease: WantedLease, now: Expression, retentionMs: number): Pipeline {
  const leased = {
    leaseId: literal(lease.leaseId),
    leaseUntil: later(now, lease.leaseMs),
    owner: literal(lease.owner),
    attempts: { $add: [{ $ifNull: ["$attempts", 0] }, 1] },
    firstSeenAt: { $ifNull: ["$firstSeenAt", now] },
    expiresAt: later(now, lease.leaseMs + retentionMs),
  };
  const kept = { expiresAt: later(now, retentionMs) };
  const ifFree = { $cond: [isHeldAt(now), nothing, leased] };
  return merged({ lastSeenAt: now }, { $cond: [isProcessed, kept, ifFree] });
}

/** The first processing counts: a repeated mark only says that the key was seen. */
export const mark = (now: Expression, retentionMs: number): Pipeline =>
  merged(
    { lastSeenAt: now },
    {
      $cond: [
        isProcessed,
        nothing,
        {
          processedAt: now,
          leaseId: null,
          leaseUntil: null,
          firstSeenAt: { $ifNull: ["$firstSeenAt", now] },
          expiresAt: later(now, retentionMs),
        },
      ],
    },
  );

/** Selects the key while this lease holds it. The updates below are for documents that it selects. */
export const heldBy = (key: string, leaseId: string, now: Expression) => ({
  _id: key,
  leaseId,
  $expr: isHeldAt(now),
});

export const renewal = (leaseMs: number, now: Expression, retentionMs: number): Pipeline => [
  { $set: { leaseUntil: later(now, leaseMs), expiresAt: later(now, leaseMs + retentionMs) } },
];

export const finished = (leaseId: string, now: Expression, retentionMs: number): Pipeline => [
  {
    $set: {
      processedAt: now,
      processedBy: literal(leaseId),
      leaseId: null,
      leaseUntil: null,
      expiresAt: later(now, retentionMs),
    },
  },
];

export const released = (now: Expression, retentionMs: number): Pipeline => [
  { $set: { leaseId: null, leaseUntil: null, expiresAt: later(now, retentionMs) } },
];

/** Reads the key, and whether it is held, by the server's time. */
export const report = (key: string, now: Expression): Pipeline => [
  { $match: { _id: key } },
  { $set: { isHeld: isHeldAt(now) } },
];
