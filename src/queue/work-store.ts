import type { OwnerToken } from "./leases.js";
import {
  type InboxKey,
  type InboxMessage,
  inboxStates,
  type OutboxKey,
  type OutboxMessage,
  outboxStates,
  type Phase,
  type QueueMessage,
  type Resolution,
} from "./message.js";
import type { FailedAttempt, Operators } from "./operators.js";
import type { Retention } from "./retention.js";
import type { TopicSchemas } from "./topics.js";

/** Options that every call of a store takes. */
export interface CallOptions {
  /** An abort rejects the call with the signal's reason. What the database has committed stays. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `claim`. */
export interface ClaimOptions extends CallOptions {
  readonly owner: OwnerToken;
  /** How long only this owner holds the messages: 30 s by default; 10–300 s suit most work. */
  readonly leaseMs?: number;
  /** 50 by default; 1–100 suit most work. */
  readonly batchSize?: number;
}

/** Options of `abandon`. */
export interface AbandonOptions extends CallOptions {
  /** Replaces the policy's number of attempts, after which the message is dead; `Infinity` for no limit. */
  readonly maxAttempts?: number | undefined;
  /** Replaces the policy's back-off. */
  readonly delayMs?: number | undefined;
  readonly error?: string | null | undefined;
}

/** One message to abandon with a delay and an error of its own. */
export interface Abandonment<Key> {
  readonly message: Key;
  readonly delayMs?: number | undefined;
  readonly error?: string | null | undefined;
  /** `false` when the message was not tried: the attempt does not count, and the message cannot become dead by it. */
  readonly costsAttempt?: boolean | undefined;
}

declare const isPrepared: unique symbol;

/** Messages to send that an outbox has checked: `outbox.prepare` returns them, `ack` enqueues them. */
export interface PreparedMessages {
  readonly [isPrepared]: true;
  /** Whether one has a natural key: its insert waits for every open transaction that has inserted the same one. */
  readonly hasNaturalKeys: boolean;
}

/** One message to acknowledge, and what to send because of it. */
export interface Acknowledgement<Key> {
  readonly message: Key;
  /** Enqueued in the transaction of the acknowledgement, unless the message is lost. */
  readonly outgoing?: PreparedMessages | undefined;
}

/** The result of a settlement. Messages that the owner no longer held are `lost`: reported, never thrown. */
export interface Settlement<Key> {
  readonly changed: readonly Key[];
  readonly lost: readonly Key[];
  /** The part of `changed` that became dead because the last attempt was used up. */
  readonly dead: readonly Key[];
}

/** Options of `reapExpired`. */
export interface ReapOptions extends CallOptions {
  /** Rows in one statement; 200 by default. */
  readonly batchSize?: number;
  /** Stops after this many batches. By default it goes on until nothing is left. */
  readonly maxBatches?: number;
}

/** What a reap did. */
export interface ReapResult {
  /** Leases that had expired; each counted as an attempt. */
  readonly reaped: number;
  /** How many messages became dead: expired leases at their last attempt, and messages past their `expiresAt`. */
  readonly dead: number;
  /** Stopped by `maxBatches` with more to do. */
  readonly more: boolean;
}

/** Options of `purgeDone`. */
export interface PurgeOptions extends CallOptions {
  /** Messages done within this time are kept: 30 days by default. `Infinity` keeps all, except where `retentions` say otherwise. */
  readonly retentionMs?: number;
  /** Other retentions for some of the messages: the first that fits a message decides. */
  readonly retentions?: readonly Retention[] | undefined;
  readonly batchSize?: number;
  readonly maxBatches?: number;
  /** The `cursor` of a purge that `maxBatches` stopped. */
  readonly after?: number | undefined;
}

/** Options of `purgeDead`. */
export interface PurgeDeadOptions extends PurgeOptions {
  /** Messages that died within this time are kept. There is no default: nothing deletes a dead message unless you say when. */
  readonly retentionMs: number;
}

/** Options of `purgeOperations`. */
export interface PurgeOperationsOptions extends CallOptions {
  /** Records of operations that ended within this time are kept: 90 days by default. */
  readonly retentionMs?: number | undefined;
  readonly batchSize?: number | undefined;
  readonly maxBatches?: number | undefined;
}

/** What a purge did. */
export interface PurgeResult {
  readonly purged: number;
  /** Stopped by `maxBatches` with more to do. */
  readonly more: boolean;
  /** Pass it as `after` to continue; null at the end. */
  readonly cursor: number | null;
}

/** The conditions that choose messages. Without any: all of them. */
export interface MessageFilter extends CallOptions {
  readonly topic?: string | undefined;
  /** Inbox only. */
  readonly source?: string | undefined;
  /** Part of the last error's text; not empty. */
  readonly error?: string | undefined;
  /** The `errorGroup` of a group that `deadGroups` returned. */
  readonly errorGroup?: string | undefined;
  /** Ages count from the death of a dead message, and from the arrival of any other. */
  readonly olderThanMs?: number | undefined;
  readonly newerThanMs?: number | undefined;
}

/** Which messages `list` returns. */
export interface ListFilter<State extends string> extends MessageFilter {
  readonly state?: State | undefined;
  /** Of an inbox: only Done messages that an operator has resolved in this way. */
  readonly resolution?: Resolution | undefined;
  /** 100 by default, 1,000 at most. */
  readonly limit?: number | undefined;
  /** The `cursor` of the previous page. */
  readonly after?: number | undefined;
}

/** One page of messages. */
export interface Page<Message> {
  readonly messages: readonly Message[];
  /** Pass it as `after` to get the next page; null on the last page. */
  readonly cursor: number | null;
}

/** Options of `replay`. */
export interface ReplayOptions extends CallOptions {
  /** The messages expire this long after the replay. By default they do not. */
  readonly ttlMs?: number | undefined;
}

/** Numbers of a queue. */
export interface QueueStats<State extends string> {
  readonly counts: Readonly<Record<State, number>>;
  /** The same messages in the words of operators. They add up to the sum of `counts`. */
  readonly phases: Readonly<Record<Phase, number>>;
  /** Messages whose time has come and that no pause holds. Those that wait for a limit are among them. */
  readonly due: number;
  /** How long the oldest due message has been waiting; null when none is due. */
  readonly oldestDueAgeMs: number | null;
  /** The part of the dead messages whose expiry has passed. */
  readonly expired: number;
}

/** Options of `ack`. */
export interface AckOptions<Tx> extends CallOptions {
  /** Acknowledges inside this transaction, so that both commit together. */
  readonly tx?: Tx;
}

/** Claiming and settling. `Key` is what a settlement takes, and `Settled` what it returns of those. */
interface Leasing<Message extends QueueMessage, Key, Settled, Tx, Topics extends TopicSchemas> {
  /** Names the store in logs. */
  readonly id: string;
  /** Names the queue in metrics and traces: its table, in lower case. */
  readonly queue?: string;
  /** The schemas of its topics: a dispatcher checks messages by them before their handlers. */
  readonly topics?: Topics | undefined;
  /** The database as an object: two queues that have the same can share a transaction. */
  database?(): object;
  /** Leases due messages and returns them whole, in one round trip. A message with two crashes or more is returned by itself. */
  claim(options: ClaimOptions): Promise<readonly Message[]>;
  /** The messages are done. What is `outgoing` because of them is enqueued with it, in the same round trip. */
  ack(
    owner: OwnerToken,
    messages: readonly (Key | Acknowledgement<Key>)[],
    options?: AckOptions<Tx>,
  ): Promise<Settlement<Settled>>;
  /** Returns messages for a retry: counts an attempt and applies the back-off. After the last attempt a message is dead. */
  abandon(
    owner: OwnerToken,
    messages: readonly (Key | Abandonment<Key>)[],
    options?: AbandonOptions,
  ): Promise<Settlement<Settled>>;
  /** Makes messages dead at once. */
  fail(
    owner: OwnerToken,
    messages: readonly Key[],
    error: string,
    options?: CallOptions,
  ): Promise<Settlement<Settled>>;
  /** Returns messages that were not started. It costs no attempt, and they are due at once. */
  release(owner: OwnerToken, messages: readonly Key[], options?: CallOptions): Promise<Settlement<Settled>>;
  /** Extends the lease to `leaseMs` from now. */
  renew(
    owner: OwnerToken,
    messages: readonly Key[],
    leaseMs: number,
    options?: CallOptions,
  ): Promise<Settlement<Settled>>;
  /** Runs `work` in a transaction on the store's database: commits when it resolves, rolls back when it rejects. */
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: CallOptions): Promise<T>;
}

/** Messages of one topic that were acknowledged without a handler. */
export interface UnhandledCount {
  readonly topic: string;
  readonly messages: number;
}

/** The part of a WorkStore that a dispatcher needs. Settlements return the messages that were passed. */
export interface DispatchStore<
  Message extends QueueMessage,
  Tx = unknown,
  Topics extends TopicSchemas = TopicSchemas,
> extends Leasing<Message, NoInfer<Message>, unknown, Tx, Topics> {
  /** Adds to what `unhandled` of the operators returns. Each topic is there once. */
  recordUnhandled?(topics: readonly UnhandledCount[], options?: CallOptions): Promise<void>;
}

/**
 * The work queue behind inbox and outbox. `Key` identifies a message. A claimed message is a key too, and settling by it
 * saves a query.
 */
export interface WorkStore<
  Key,
  Message extends QueueMessage,
  State extends string,
  Tx = unknown,
  Topics extends TopicSchemas = TopicSchemas,
> extends Leasing<Message, Key, Key, Tx, Topics> {
  /** Deploys the schema when `enableSchemaDeployment` is set; does nothing otherwise. */
  init(options?: CallOptions): Promise<void>;
  /** Ends expired leases and messages past their `expiresAt`, in short batches. */
  reapExpired(options?: ReapOptions): Promise<ReapResult>;
  /** Deletes messages that were done before the retention, in short batches. It deletes nothing else. */
  purgeDone(options?: PurgeOptions): Promise<PurgeResult>;
  /**
   * Deletes messages that died before the retention and, in an inbox, have not arrived again since; in short batches. A dead message that
   * blocks its partition queue is kept, however old.
   */
  purgeDead(options: PurgeDeadOptions): Promise<PurgeResult>;
  /** Deletes records of operations that ended before the retention, in short batches. Unfinished ones are kept. */
  purgeOperations(options?: PurgeOperationsOptions): Promise<Pick<PurgeResult, "purged" | "more">>;

  get(key: Key, options?: CallOptions): Promise<Message | null>;
  /** The failed attempts of a message, the oldest first. */
  attempts(key: Key, options?: CallOptions): Promise<readonly FailedAttempt[]>;
  list(filter?: ListFilter<State>): Promise<Page<Message>>;
  stats(options?: CallOptions): Promise<QueueStats<State>>;
  /** `oldestDueAgeMs` of `stats`, without counting: cheap enough for every minute, however many messages are kept. */
  oldestDueAgeMs(options?: CallOptions): Promise<number | null>;
  recordUnhandled(topics: readonly UnhandledCount[], options?: CallOptions): Promise<void>;
  /** Dead messages become claimable again, with attempt 0 and without their old expiry. `operatorsOf` records who does it. */
  replay(messages: readonly Key[], options?: ReplayOptions): Promise<Settlement<Key>>;
}

/** Called for every message that becomes dead, after the commit. An error that it throws is logged. */
export type DeadLetterListener<Key> = (dead: {
  readonly message: Key;
  readonly reason: string;
}) => void | Promise<void>;

export const queueKinds = ["inbox", "outbox"] as const;
export type QueueKind = (typeof queueKinds)[number];

export type AnyKey = InboxKey | OutboxKey;
export type AnyMessage = InboxMessage | OutboxMessage;

/** A queue with what operators do, of a kind that is known only at run time. The keys and states are those of its own kind. */
export interface AnyQueue extends Omit<WorkStore<AnyKey, AnyMessage, string>, "replay">, Operators<AnyKey> {}

export const statesOf = { inbox: inboxStates, outbox: outboxStates } as const;

/** The state of dead messages is called Failed in the outbox. */
export const deadState = { inbox: "Dead", outbox: "Failed" } as const;
