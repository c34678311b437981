import type { QueueMessage } from "./message.js";
import type { OwnerToken } from "./owner-token.js";

export interface CallOptions {
  /** Aborting rejects the call with the signal's reason; what the database had already committed stays. */
  readonly signal?: AbortSignal | undefined;
}

export interface ClaimOptions extends CallOptions {
  readonly owner: OwnerToken;
  /** How long the messages are this owner's alone. 30 s by default; 10–300 s suit most work. */
  readonly leaseMs?: number;
  /** 50 by default; 1–100 suit most work. */
  readonly batchSize?: number;
}

export interface AbandonOptions extends CallOptions {
  /** Instead of the policy's: the message is dead when it has failed so often. */
  readonly maxAttempts?: number | undefined;
  /** Instead of the policy's back-off. */
  readonly delayMs?: number | undefined;
  readonly error?: string | null | undefined;
}

/** One message to abandon with a delay and an error of its own. */
export interface Abandonment<Key> {
  readonly message: Key;
  readonly delayMs?: number | undefined;
  readonly error?: string | null | undefined;
  /** `false` for what was not tried: the count of attempts stays, and this cannot make it dead. */
  readonly costsAttempt?: boolean | undefined;
}

/** What a settlement did. Rows the owner no longer held are `lost`: reported, never thrown. */
export interface Settlement<Key> {
  readonly changed: readonly Key[];
  readonly lost: readonly Key[];
  /** Those of `changed` that this made dead (the last attempt was used up). */
  readonly dead: readonly Key[];
}

export interface ReapOptions extends CallOptions {
  /** Rows in one statement; 200 by default. */
  readonly batchSize?: number;
  /** Stop after this many batches; until nothing is left by default. */
  readonly maxBatches?: number;
}

export interface ReapResult {
  /** Leases that had expired; each counted as an attempt. */
  readonly reaped: number;
  /** How many of those, and of messages past their `expiresAt`, are dead now. */
  readonly dead: number;
  /** Stopped by `maxBatches` with more to do. */
  readonly more: boolean;
}

export interface PurgeOptions extends CallOptions {
  /** Keep what was done within this time: 30 days by default. */
  readonly retentionMs?: number;
  readonly batchSize?: number;
  readonly maxBatches?: number;
  /** The `cursor` of a purge that `maxBatches` stopped. */
  readonly after?: number | undefined;
}

export interface PurgeResult {
  readonly purged: number;
  /** Stopped by `maxBatches` with more to look at. */
  readonly more: boolean;
  /** Give it as `after` to go on from there; null when there is no more. */
  readonly cursor: number | null;
}

export interface ListFilter<State extends string> extends CallOptions {
  readonly state?: State | undefined;
  readonly topic?: string | undefined;
  /** Inbox only. */
  readonly source?: string | undefined;
  /** Part of the last error's text. */
  readonly error?: string | undefined;
  readonly olderThanMs?: number | undefined;
  readonly newerThanMs?: number | undefined;
  /** 100 by default, 1,000 at most. */
  readonly limit?: number | undefined;
  /** The `cursor` of the page before. */
  readonly after?: number | undefined;
}

export interface Page<Message> {
  readonly messages: readonly Message[];
  /** Give it as `after` to get the next page; null on the last. */
  readonly cursor: number | null;
}

export interface QueueStats<State extends string> {
  readonly counts: Readonly<Record<State, number>>;
  /** Messages that could be claimed right now. */
  readonly due: number;
  /** How long the oldest of them has been waiting; null when none is. */
  readonly oldestDueAgeMs: number | null;
}

export interface AckOptions<Tx> extends CallOptions {
  /** Acknowledge inside this transaction: it commits with what else is in it. */
  readonly tx?: Tx | undefined;
}

/** What a dispatcher needs of a store: every WorkStore has it. Settlements hold the messages that were passed. */
export interface DispatchStore<Message extends QueueMessage, Tx = unknown> {
  readonly id: string;
  /** What comes out of it says what the message is; the settlements follow. */
  claim(options: ClaimOptions): Promise<readonly Message[]>;
  ack(
    owner: OwnerToken,
    messages: readonly NoInfer<Message>[],
    options?: AckOptions<Tx>,
  ): Promise<Settlement<unknown>>;
  abandon(
    owner: OwnerToken,
    messages: readonly Abandonment<NoInfer<Message>>[],
    options?: AbandonOptions,
  ): Promise<Settlement<unknown>>;
  fail(owner: OwnerToken, messages: readonly NoInfer<Message>[], error: string): Promise<Settlement<unknown>>;
  release(owner: OwnerToken, messages: readonly NoInfer<Message>[]): Promise<Settlement<unknown>>;
  renew(
    owner: OwnerToken,
    messages: readonly NoInfer<Message>[],
    leaseMs: number,
  ): Promise<Settlement<unknown>>;
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: CallOptions): Promise<T>;
}

/**
 * The work queue behind inbox and outbox. `Key` names a message; a claimed message is a
 * key too, and settling by it saves a look-up.
 */
export interface WorkStore<Key, Message extends QueueMessage, State extends string, Tx = unknown> {
  /** Names the store in logs. */
  readonly id: string;
  /** Deploys the schema when `enableSchemaDeployment` is set; does nothing otherwise. */
  init(options?: CallOptions): Promise<void>;

  /** Leases due messages, whole, in one round trip. One that came back from a crash comes alone. */
  claim(options: ClaimOptions): Promise<readonly Message[]>;
  ack(owner: OwnerToken, messages: readonly Key[], options?: AckOptions<Tx>): Promise<Settlement<Key>>;
  /** Gives back for a retry: counts an attempt, applies the back-off, and after the last attempt the message is dead. */
  abandon(
    owner: OwnerToken,
    messages: readonly (Key | Abandonment<Key>)[],
    options?: AbandonOptions,
  ): Promise<Settlement<Key>>;
  /** Makes dead at once. */
  fail(
    owner: OwnerToken,
    messages: readonly Key[],
    error: string,
    options?: CallOptions,
  ): Promise<Settlement<Key>>;
  /** Hands back what was not started, at no attempt, due at once. */
  release(owner: OwnerToken, messages: readonly Key[], options?: CallOptions): Promise<Settlement<Key>>;
  /** Extends the lease to `leaseMs` from now. */
  renew(
    owner: OwnerToken,
    messages: readonly Key[],
    leaseMs: number,
    options?: CallOptions,
  ): Promise<Settlement<Key>>;

  /** A transaction on the store's database; it commits when `work` resolves and rolls back when it rejects. */
  transaction<T>(work: (tx: Tx) => Promise<T>, options?: CallOptions): Promise<T>;

  /** Ends expired leases and messages past their `expiresAt`, in short batches. */
  reapExpired(options?: ReapOptions): Promise<ReapResult>;
  /** Deletes what was done before the retention, in short batches; nothing else. */
  purgeDone(options?: PurgeOptions): Promise<PurgeResult>;

  get(key: Key, options?: CallOptions): Promise<Message | null>;
  list(filter?: ListFilter<State>): Promise<Page<Message>>;
  stats(options?: CallOptions): Promise<QueueStats<State>>;
  /** That of `stats`, without counting: cheap enough for every minute, however many messages are kept. */
  oldestDueAgeMs(options?: CallOptions): Promise<number | null>;
  /** Dead messages become claimable again, with attempt 0 and no expiry. */
  replay(messages: readonly Key[], options?: CallOptions): Promise<Settlement<Key>>;
}

/** Told of every message that becomes dead, after the commit. What it throws is logged. */
export type DeadLetterListener<Key> = (dead: {
  readonly message: Key;
  readonly reason: string;
}) => void | Promise<void>;
