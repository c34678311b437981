import type { Resolution } from "./message.js";
import type { CallOptions, MessageFilter, QueueKind, ReplayOptions, Settlement } from "./work-store.js";

/** What operators do with a queue, and what they read of it. */
export interface Operators<Key> extends DeadLetters<Key>, OperatorReads<Key>, Controls {}

/** An attempt that failed: abandoned, failed, timed out, or lost with its lease. A message keeps its last 50. */
export interface FailedAttempt {
  /** Which attempt it was, from 1. A replay begins again at 1. */
  readonly attempt: number;
  /** When it ended; of a lost lease, when the lease did. */
  readonly endedAt: Date;
  /** The owner token of the claim. */
  readonly worker: string | null;
  readonly error: string | null;
}

/** Which dead messages. */
export type DeadFilter = MessageFilter;

export interface LimitOptions extends CallOptions {
  /** Of the list that is returned, the first ones; 100 by default, 1,000 at most. */
  readonly limit?: number | undefined;
}

/** Dead messages whose errors differ only in numbers, ids and quoted parts. */
export interface DeadGroup<Key> {
  /** Names the group in a filter; empty for messages that died without an error. */
  readonly errorGroup: string;
  readonly count: number;
  /** When the first and the last of them died. */
  readonly firstAt: Date;
  readonly lastAt: Date;
  /** One of them, and its error. */
  readonly example: Key;
  readonly error: string | null;
}

export interface OperatorOptions extends CallOptions {
  /** Who does it: a person or a job. It is recorded. */
  readonly by: string;
}

/** What is done to all dead messages that match. */
export const bulkActions = ["replay", "discard", "archive"] as const;
export type BulkAction = (typeof bulkActions)[number];
/** `limit` is also the end of a limit: its `filter.perSecond` is null then. */
export type OperationAction = BulkAction | "edit" | "pause" | "resume" | "limit";

/** The record of something that an operator does: to dead messages, or to the flow of messages by a pause or a limit. */
export interface Operation {
  readonly id: string;
  readonly action: OperationAction;
  /** Messages that died after this time are not part of it. */
  readonly at: Date;
  readonly by: string;
  readonly queue: QueueKind;
  /**
   * The conditions; `keys` of the messages that it changed, when they were named; `from` and `to` of an edit; the target of a pause or
   * a limit, empty for the whole queue, and `perSecond` of a limit.
   */
  readonly filter: Readonly<Record<string, unknown>>;
  /** How many messages there were when it began; 0 of a pause or a limit, as is `done`. */
  readonly matched: number;
  readonly done: number;
  /** The row number up to which it is done. */
  readonly cursor: number;
  /** Null until it is complete. */
  readonly endedAt: Date | null;
  /** Who went on with it last after an interruption, and when; null when it was not resumed. */
  readonly resumedBy: string | null;
  readonly resumedAt: Date | null;
}

/** Absent fields stay as they were. */
export interface EditedContent {
  readonly topic?: string | undefined;
  readonly payload?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | null | undefined;
}

export interface ContinueOptions extends CallOptions {
  /** Messages in this transaction; 200 by default. */
  readonly batchSize?: number | undefined;
  /** Refuses an operation that does something else. */
  readonly action?: BulkAction | undefined;
  /** Who goes on with it after an interruption: given with the first batch after it. It is recorded. */
  readonly resumedBy?: string | undefined;
}

/** What operators do with dead messages. */
export interface DeadLetters<Key> {
  /** Dead messages by error, the largest group first. */
  deadGroups(filter?: DeadFilter & LimitOptions): Promise<readonly DeadGroup<Key>[]>;
  countDead(filter?: DeadFilter): Promise<number>;
  /**
   * Makes dead messages claimable, as `replay` of the queue does, in one transaction with the record of it: 1,000 at most. Where
   * nothing was changed there is no record.
   */
  replay(messages: readonly Key[], options: OperatorOptions & ReplayOptions): Promise<Settlement<Key>>;
  /**
   * Deletes only dead messages, in one transaction with the record of it: 1,000 at most. An inbox forgets their keys: a
   * redelivery is a new message. Where nothing was changed there is no record.
   */
  discard(messages: readonly Key[], options: OperatorOptions): Promise<Settlement<Key>>;
  /**
   * Moves only dead messages into the queue's table of archived messages, in one transaction with the record of it: 1,000
   * at most. An inbox keeps their keys as Done, with the `resolution` archived: a redelivery is not handled.
   */
  archive(messages: readonly Key[], options: OperatorOptions): Promise<Settlement<Key>>;
  /**
   * Enqueues a new message with the changed content and archives the dead one with its attempts, in one transaction. Returns the
   * new key. The new message has the correlation id of the old one, or else the old one's id, which its header
   * `oncebox-edited-from` has in any case. An inbox keeps the old key as Done, with the `resolution` replaced, so a redelivery is not handled.
   */
  editAndReplay(key: Key, changes: EditedContent, options: OperatorOptions): Promise<Key>;

  /** Records an operation on the messages that are dead now and match. Changes none of them: `replayDead` does the work. */
  startOperation(action: BulkAction, filter: DeadFilter, options: OperatorOptions): Promise<Operation>;
  /** One batch and the record of it, in one transaction. */
  continueOperation(id: string, options?: ContinueOptions): Promise<Operation>;
  /** Null when the queue has no such operation. */
  operation(id: string, options?: CallOptions): Promise<Operation | null>;
  /** The unfinished ones first, then the newest. With pauses and limits that were set and ended. */
  operations(options?: LimitOptions): Promise<readonly Operation[]>;
}

/** What a control is for: the messages of a topic, those of a source (inbox only), or the whole queue. */
export type ControlTarget = "all" | { readonly topic: string } | { readonly source: string };

export type ControlScope = "queue" | "topic" | "source";

/** A pause or a limit. It is a row in the database, and every claim of every process keeps to it. */
export interface Control {
  readonly scope: ControlScope;
  /** The topic or the source; null for the whole queue. */
  readonly name: string | null;
  readonly paused: boolean;
  /** The most messages that are claimed in a second, by all processes together; null without a limit. */
  readonly perSecond: number | null;
  /** Unfinished messages of its target that no worker holds. */
  readonly waiting: number;
  /** Who changed it last, and when. */
  readonly by: string;
  readonly at: Date;
}

/** Without topic and source: the whole queue. */
export interface Limit {
  readonly topic?: string | undefined;
  readonly source?: string | undefined;
  /** Such as 10, or 0.1 for one message in ten seconds. `null` takes the limit away. */
  readonly perSecond: number | null;
}

export interface Resumed {
  /** `false` when there was nothing to resume. */
  readonly wasPaused: boolean;
}

/** What operators do to the flow of messages. Handlers that run already go on. */
export interface Controls {
  /**
   * From now on no claim of any process returns a message of the target. The messages wait, keep their order, and expire
   * when their time has come.
   *
   * @example
   * await operatorsOf(outbox).pause({ topic: "mail.welcome" }, { by: "alice" });
   */
  pause(target: ControlTarget, options: OperatorOptions): Promise<Control>;
  /** Ends a pause: the next claim finds the messages. A limit on the same target stays. */
  resume(target: ControlTarget, options: OperatorOptions): Promise<Resumed>;
  /**
   * Limits how many messages are claimed in a second. What was not used in the last second is added, so there may be twice
   * as many once. Retries count. Returns null when the limit was taken away and nothing is left of the control.
   *
   * @example
   * await operatorsOf(outbox).limit({ topic: "mail.welcome", perSecond: 10 }, { by: "alice" });
   */
  limit(limit: Limit, options: OperatorOptions): Promise<Control | null>;
  /** All controls of the queue. */
  controls(options?: CallOptions): Promise<readonly Control[]>;
}

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

/** What a queue did over time. */
export interface Activity {
  /** The oldest first. The last one ends now. */
  readonly buckets: readonly ActivityBucket[];
  /** There was more to read than a call may read: counts of the older buckets are too low. */
  readonly truncated: boolean;
}

/** A partition key whose first message holds up the others. */
export interface BlockedPartition<Key> {
  readonly partitionKey: string;
  /** The first message. */
  readonly head: Key;
  readonly topic: string;
  /**
   * Why it holds them up: it is dead and blocks its partition key, it is being handled, a pause holds it, it waits for
   * its next attempt, or its due time has not come.
   */
  readonly reason: "dead" | "leased" | "paused" | "retrying" | "scheduled";
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
  readonly resolution: Resolution | null;
}

/** What operators read beside single messages and dead ones. */
export interface OperatorReads<Key> {
  /**
   * How many messages were enqueued, done and dead, over time. It reads up to 100,000 messages of each kind, the newest
   * first. A message that was replayed counts as if it had not died, a discarded one as if it had not existed.
   */
  activity(options?: ActivityOptions): Promise<Activity>;
  /** Partition keys that do not move: those behind a dead message first, then those with the most messages behind. */
  blockedPartitions(options?: LimitOptions): Promise<readonly BlockedPartition<Key>[]>;
  /** Messages with this correlation id, and those with this message id (inbox) or id (outbox), the oldest first. */
  byCorrelation(id: string, options?: LimitOptions): Promise<readonly CorrelatedMessage<Key>[]>;
  /** Topics whose messages were acknowledged without a handler, the last seen first. One is forgotten 30 days after its last message. */
  unhandled(options?: LimitOptions): Promise<readonly UnhandledTopic[]>;
}

/** A topic that no handler is for, and that is not to be retried: see `onUnhandled`. */
export interface UnhandledTopic {
  readonly topic: string;
  /** How many were acknowledged, since the topic was first seen. A process that is killed may not have counted its last ones. */
  readonly messages: number;
  readonly lastSeenAt: Date;
}
