import type { EndedAs } from "./message.js";
import type { CallOptions } from "./work-store.js";

export interface ActivityOptions extends CallOptions {
  /** How far back; 24 hours by default, 31 days at most. */
  readonly sinceMs?: number | undefined;
  /** Into how many parts of equal length that time is divided; 48 by default, 500 at most. */
  readonly buckets?: number | undefined;
}

/** What happened in one part of the time. */
export interface ActivityBucket {
  readonly from: Date;
  readonly until: Date;
  readonly enqueued: number;
  readonly done: number;
  readonly dead: number;
  /** How many messages were neither done nor dead at `until`: now, and before that by the counts of the buckets after it. */
  readonly unfinished: number;
}

export interface Activity {
  /** The oldest first. The last one ends now. */
  readonly buckets: readonly ActivityBucket[];
  /** There was more to read than a call may read: counts of the older buckets are too low. */
  readonly truncated: boolean;
}

export interface BlockedPartitionsOptions extends CallOptions {
  /** 100 by default, 1,000 at most. */
  readonly limit?: number | undefined;
}

/** A partition key whose first message holds up the others. */
export interface BlockedPartition<Key> {
  readonly partitionKey: string;
  /** The first message. */
  readonly head: Key;
  readonly topic: string;
  /**
   * Why it holds them up: it is dead and blocks its partition key, it is being handled, a pause or a limit has parked it, it waits
   * for its next attempt, or its due time has not come.
   */
  readonly reason: "dead" | "leased" | "parked" | "retrying" | "scheduled";
  /** Its failed attempts. */
  readonly attempt: number;
  readonly error: string | null;
  /** When it can be claimed next; null when it is dead. */
  readonly nextAttemptAt: Date | null;
  /** How many messages are behind it. */
  readonly waiting: number;
  /** When it died or, when it is not dead, when the oldest message behind it arrived. */
  readonly since: Date;
}

export interface CorrelationOptions extends CallOptions {
  /** The oldest ones; 100 by default, 1,000 at most. */
  readonly limit?: number | undefined;
}

/** A message without what it contains, and when what happened to it. */
export interface CorrelatedMessage<Key> {
  readonly key: Key;
  readonly topic: string;
  /** The name that the queue has for it. */
  readonly state: string;
  readonly correlationId: string | null;
  readonly messageId: string;
  readonly partitionKey: string | null;
  readonly attempt: number;
  readonly lastError: string | null;
  /** When it was received or, in an outbox, enqueued. */
  readonly enqueuedAt: Date;
  /** When the first attempt ended, well or not; null before that, and when its attempts are in the archive. */
  readonly firstAttemptAt: Date | null;
  /** When it was acknowledged, or ended by an operator. */
  readonly doneAt: Date | null;
  readonly diedAt: Date | null;
  /** As of an inbox message; null in an outbox. */
  readonly endedAs: EndedAs | null;
}

/** What operators read beside single messages and dead ones. */
export interface OperatorReads<Key> {
  /**
   * How many messages were enqueued, done and dead, over time. It reads up to 100,000 messages of each kind, the newest
   * first. A message that was replayed counts as if it had not died, a discarded one as if it had not existed.
   */
  activity(options?: ActivityOptions): Promise<Activity>;
  /** Partition keys that do not move: those behind a dead message first, then those with the most messages behind. */
  blockedPartitions(options?: BlockedPartitionsOptions): Promise<readonly BlockedPartition<Key>[]>;
  /** Messages with this correlation id, and those with this message id (inbox) or id (outbox), the oldest first. */
  byCorrelation(id: string, options?: CorrelationOptions): Promise<readonly CorrelatedMessage<Key>[]>;
}
