import type { QueueKind } from "./any-queue.js";
import type { CallOptions, MessageFilter, ReplayOptions, Settlement } from "./work-store.js";

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

export interface DeadGroupsFilter extends DeadFilter {
  /** The largest groups; 100 by default, 1,000 at most. */
  readonly limit?: number | undefined;
}

/** Dead messages whose errors differ in numbers, ids and quoted parts only. */
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

export interface RecordedReplayOptions extends OperatorOptions, ReplayOptions {}

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
  deadGroups(filter?: DeadGroupsFilter): Promise<readonly DeadGroup<Key>[]>;
  countDead(filter?: DeadFilter): Promise<number>;
  /**
   * Makes dead messages claimable, as `replay` of the queue does, in one transaction with the record of it: 1,000 at most. Where
   * nothing was changed there is no record.
   */
  replay(messages: readonly Key[], options: RecordedReplayOptions): Promise<Settlement<Key>>;
  /**
   * Deletes dead messages, and no others, in one transaction with the record of it: 1,000 at most. An inbox forgets their keys: a
   * redelivery is a new message. Where nothing was changed there is no record.
   */
  discard(messages: readonly Key[], options: OperatorOptions): Promise<Settlement<Key>>;
  /**
   * Moves dead messages, and no others, into the queue's table of archived messages, in one transaction with the record of it: 1,000
   * at most. An inbox keeps their keys as Done, with `endedAs` archived: a redelivery is not handled.
   */
  archive(messages: readonly Key[], options: OperatorOptions): Promise<Settlement<Key>>;
  /**
   * Enqueues a new message with the changed content and archives the dead one with its attempts, in one transaction. Returns the
   * new key. The new message has the correlation id of the old one, or else the old one's id, which its header
   * `oncebox-edited-from` has in any case. An inbox keeps the old key as Done, with `endedAs` replaced, so a redelivery is not handled.
   */
  editAndReplay(key: Key, changes: EditedContent, options: OperatorOptions): Promise<Key>;

  /** Records an operation on the messages that are dead now and match. Changes none of them: `replayDead` does the work. */
  startOperation(action: BulkAction, filter: DeadFilter, options: OperatorOptions): Promise<Operation>;
  /** One batch and the record of it, in one transaction. */
  continueOperation(id: string, options?: ContinueOptions): Promise<Operation>;
  /** Null when the queue has no such operation. */
  operation(id: string, options?: CallOptions): Promise<Operation | null>;
  /** The unfinished ones first, then the newest. With pauses and limits that were set and ended. */
  operations(options?: CallOptions & { readonly limit?: number | undefined }): Promise<readonly Operation[]>;
}
