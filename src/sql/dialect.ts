import type { Logger } from "../base/logger.js";
import type { WakeUpSource } from "../dispatch/worker.js";
import type { Fault, SqlDriver, SqlExecutor, SqlRow, SqlStatement, SqlValue } from "./driver.js";
import type { Inspection, WrongSetting } from "./inspection.js";
import type { QueueNames } from "./names.js";
import type { AnyDatabase, DatabaseKind } from "./native.js";

/**
 * The values of the status column of a state row. The tables, their columns and what they mean are the same on every
 * database. Every unfinished message has a state row; a message without one is done and has a row in the done table. The
 * states' public names (Seen, Processing, InProgress, …) are made of it in message-rows.ts and in the views.
 *
 * | a message is         | its state row                                                                                   |
 * |----------------------|-------------------------------------------------------------------------------------------------|
 * | known, not enqueued  | seen                                                                                            |
 * | waiting for its time | ready; visible_at is the time; owner, locked_until and reclaimable_at are null                  |
 * | leased               | ready; owner; locked_until is the end of the lease; reclaimable_at adds the back-off after it; visible_at stays |
 * | lost by its worker   | as leased, and reclaimable_at has come                                                          |
 * | reaped after a crash | ready; crashes > 0; owner and locked_until are null; reclaimable_at is the time                 |
 * | released             | ready; owner and locked_until are null; reclaimable_at is due_since                             |
 * | blocked              | blocked; it becomes ready when it is the head of its partition queue                            |
 * | marked Processing    | processing: no claim, reaper or expiry touches it                                               |
 * | dead                 | dead; died_at; last_error; owner and locked_until are null                                      |
 * | dead, expiry being reported | dead; owner; locked_until is when another process may report it                          |
 * | done                 | none; a row in the done table                                                                   |
 *
 * Claimable: ready, visible_at has come, and reclaimable_at is null or has come. A claim changes neither status nor
 * visible_at, which are what the claim's index has: its update touches no index, and a message keeps its place in the order.
 * See docs/decisions/0002 and 0008.
 *
 * A column that the table does not name for a state keeps an earlier value, and nothing reads it then.
 */
export const status = {
  /** Inbox only. */
  seen: 0,
  ready: 1,
  /** Inbox only: marked by hand. */
  processing: 2,
  /** Never stored: it stands for a message without a state row. */
  done: 3,
  dead: 4,
  blocked: 5,
} as const;

/**
 * Reads of dead messages that match `:topic`, `:source`, `:error`, `:error_group`, `:older_than_ms` and `:newer_than_ms`, each
 * when it is not null, and that died by `:at`, or by now when it is null. Ages refer to that time too.
 */
export interface DeadStatements {
  /** → error_group, count, first_at, last_at; last_error and key columns of one message */
  readonly deadGroups: SqlStatement;
  /** → one row: count */
  readonly countDead: SqlStatement;
}

/** What operators do. The functions' database user has no right to it. A row of an operation has the columns of its table. */
export interface OperatorStatements {
  /** Deletes dead messages → seq */
  readonly discard: SqlStatement;
  /** Moves dead messages into the archive, as `:who`. An inbox keeps their keys as done, without content, with `:resolution` → seq */
  readonly archive: SqlStatement;
  /** The first `:limit` after `:after_seq` that match → seq */
  readonly nextDead: SqlStatement;
  /** → the operation */
  readonly addOperation: SqlStatement;
  /** → the operation of this queue, locked until the transaction ends; none when it does not exist */
  readonly lockOperation: SqlStatement;
  /** Writes down how far it is, and who has resumed it when `:who` is not null → the operation */
  readonly moveOperation: SqlStatement;
  /** → the operations of this queue, or the one with `:id` when it is not null: the unfinished first, then the newest */
  readonly operations: SqlStatement;
  /** Adds a control or changes it: `:paused` and `:per_second`, each when it is not null → the control, as `controls` does */
  readonly putControl: SqlStatement;
  /**
   * Ends the pause, when `:paused` is true, or else the limit, and deletes a control that is neither paused nor limited then
   * → the control as it is then; none when there was nothing to end
   */
  readonly endControl: SqlStatement;
}

/**
 * What operators read to see how a queue is doing. The three of activity read up to `:limit` rows with numbers below
 * `:before_seq`, the highest first, and count them by the bucket of `:bucket_ms` after `:since` in which it happened → bucket
 * (negative: earlier, or not at all), count, first_seq (the lowest number)
 */
export interface OperatorReadStatements extends DeadStatements {
  /**
   * → scope, name ('' of the whole queue), paused, per_second, who, changed_at of each control, the oldest change first; and
   * waiting: the messages of its target that are ready or blocked and not leased
   */
  readonly controls: SqlStatement;
  /** → topic, messages, last_seen_at of the topics whose messages were acknowledged without a handler, the newest first */
  readonly unhandled: SqlStatement;
  /** → one row: count of the messages that are to be handled, `:limit` of each kind at most; now */
  readonly unfinished: SqlStatement;
  readonly enqueuedBefore: SqlStatement;
  readonly doneBefore: SqlStatement;
  readonly diedBefore: SqlStatement;
  /**
   * → partition_key, waiting, waiting_since (of the oldest message behind), and of the first message: the key columns, topic, status,
   * leased, paused (a pause holds it), attempt, last_error, next_attempt_at, died_at. The first message is dead; or messages
   * wait behind it and it is leased, paused, retried, or not due
   */
  readonly blockedPartitions: SqlStatement;
  /**
   * The first `:limit` messages whose correlation id is `:correlation_id`, whose message id it is (inbox), or whose id is `:id` (outbox)
   * → key columns, message_id, topic, status, leased, correlation_id, partition_key, attempt, last_error, enqueued_at,
   * first_failed_at, processed_at, died_at; resolution (inbox)
   */
  readonly byCorrelation: SqlStatement;
}

/** The statements of operators, as a part of their own: the functions do not load it. See docs/decisions/0025. */
export interface OperatorDialect {
  readonly changes: (names: QueueNames) => OperatorStatements;
  readonly reads: (names: QueueNames) => OperatorReadStatements;
}

/** Statements on the state table: the same for inbox and outbox. In this order in every dialect's file. */
export interface QueueStatements {
  /**
   * Leases due messages, in order, except those that a pause holds or that a limit has no token for. → message rows, each
   * with `verdict`: claimed (or none); expired or exhausted, that is dead now. When there is none, one row without `seq`
   * if a control is the reason: `verdict` is paused (the whole queue) or limited, with `wait_ms` until a limit that a due
   * message waits for has its next token. See docs/decisions/0020.
   */
  readonly claim: SqlStatement;
  /** → seq of each message that changed; or one row: `all_changed` when all of `:count` changed, and otherwise their `seqs` */
  readonly ack: SqlStatement;
  /** → seq, dead */
  readonly abandon: SqlStatement;
  /** → seq */
  readonly fail: SqlStatement;
  /** → seq */
  readonly release: SqlStatement;
  /** → seq */
  readonly renew: SqlStatement;
  /** → key columns, seq, verdict: reaped | expired | exhausted */
  readonly reap: SqlStatement;
  /** Done messages from before the retention → one row: deleted, last_seq, more */
  readonly purge: SqlStatement;
  /**
   * The same for messages that died before the retention. A dead message that is in its partition queue is kept: it blocks the others of
   * its key, and without it they would go on as if it had been handled.
   */
  readonly purgeDead: SqlStatement;
  /** Deletes records of this queue's operations that ended before the retention, `:limit` at most → one row: deleted */
  readonly purgeOperations: SqlStatement;
  /** → seq and the key columns of the messages that exist */
  readonly resolve: SqlStatement;
  /** → message rows */
  readonly get: SqlStatement;
  /** → attempt, ended_at, worker, error of the failed attempts of a message, the oldest first */
  readonly attempts: SqlStatement;
  /** → message rows; of those that an operator has resolved as `:resolution`, when it is not null */
  readonly list: SqlStatement;
  /**
   * → rows that are added up: status, leased, retried (attempt > 0), paused (a pause holds it; of unfinished messages), count,
   * due (claimable), oldest_due_ms, expired (dead, and past the expiry), resolution (done by an operator; inbox)
   */
  readonly stats: SqlStatement;
  /** → one row: oldest_due_ms of messages that no pause holds. It reads only messages that are not finished. */
  readonly oldestDue: SqlStatement;
  /** → seq */
  readonly replay: SqlStatement;
  /** Adds `:items`, each with a `topic` and the number of its `messages`, to the topics without a handler. */
  readonly recordUnhandled: SqlStatement;
}

export interface ReceiveStatements {
  /** One message, scalar parameters → outcome; or the columns it is made of: content_changed, enqueued, old_status */
  readonly receive: SqlStatement;
  /** Many, as JSON; those with a partition key join their partition queues in this order → the same and the key columns */
  readonly receiveMany: SqlStatement;
  /** By hand, past any lease: Processing only from Seen; Dead never from Done → seq, when it changed something */
  readonly mark: SqlStatement;
}

export interface InboxStatements extends QueueStatements {
  /** → processed, content_changed */
  readonly alreadyProcessed: SqlStatement;
}

/**
 * Statements on the keys of an inbox store, which are in a table of their own: source, key, lease_id, locked_until, attempt,
 * owner, first_seen_at, last_seen_at, processed_at, processed_by. One row and one lock each. They read the clock when they
 * hold the lock. A key is held while its locked_until has not come; it is processed when it has processed_at.
 */
export interface KeyStatements {
  /**
   * Inserts an unknown `:key` of `:source`, and leases a free one, as `:lease_id` for `:lease_ms`, with the caller's name
   * `:owner` or null → processed; mine, when it is leased as `:lease_id`; locked_until
   */
  readonly tryBegin: SqlStatement;
  /**
   * The same for several keys in one transaction, in the order of `:items`, no two alike → key and the row of each.
   * Where calls of one process can share a round trip.
   */
  readonly tryBeginMany?: SqlStatement;
  /** → locked_until, when `:lease_id` holds the key */
  readonly renewKey: SqlStatement;
  /** → any row, when `:lease_id` held the key, or has finished it before */
  readonly finishKey: SqlStatement;
  /** → any row, when `:lease_id` held the key */
  readonly releaseKey: SqlStatement;
  /** Makes the key processed, known or not, whoever holds it → nothing that is read */
  readonly markKey: SqlStatement;
  /** Writes nothing → processed, held, attempt, first_seen_at, last_seen_at, locked_until, owner */
  readonly inspectKey: SqlStatement;
  /**
   * Deletes `:limit` keys of `:source` at most that were last seen before the retention, and that were processed or last held
   * before it too → one row: deleted
   */
  readonly purgeKeys: SqlStatement;
}

export interface OutboxStatements extends QueueStatements {
  /** One message, scalar parameters → nothing: the caller made the id */
  readonly enqueue: SqlStatement;
  /** Many, as JSON → nothing */
  readonly enqueueMany: SqlStatement;
  /** As enqueueMany, when some have a partition key: they join their partition queues in this order */
  readonly enqueueKeyed: SqlStatement;
  /**
   * As enqueueKeyed, when some have a natural key, no two the same in one topic → id, known_id: the message that the outbox
   * has under a natural key. It may leave out the rows of messages that it has added, where both ids are the same.
   */
  readonly enqueueOnce: SqlStatement;
  /**
   * Leases dead messages past their expiry that say nothing of it yet, or whose earlier lease of this kind has ended, and
   * writes the expiry into their errors → seq and the key columns. `release` ends the lease.
   */
  readonly expireDead: SqlStatement;
  /** Done messages in the order of their numbers, without what they contain → seq, id, topic, processed_at */
  readonly listDone: SqlStatement;
  /** As replay, for done messages → seq */
  readonly resend: SqlStatement;
  /** Messages that wait with this error are due at once → seq */
  readonly makeDue: SqlStatement;
}

export interface QueueStatementOptions {
  /** A dead message stays the head of its partition queue and blocks the others. Otherwise it leaves the queue. */
  readonly blockOnDead: boolean;
}

export interface ReceiveStatementOptions extends QueueStatementOptions {
  /** A dead message that arrives again becomes claimable, with attempt 0. */
  readonly reviveDead: boolean;
  /** A message that waits or is dead keeps its content and its state. One that was only seen takes those of the delivery. */
  readonly keepContent?: boolean;
}

export interface Migration {
  readonly number: number;
  readonly name: string;
  /** Batches, run in order in one transaction where the database has transactional DDL. */
  readonly up: (names: QueueNames) => readonly string[];
}

/** The part of a dialect that a function needs to put messages into an inbox. */
export interface ReceivingDialect<Kind extends AnyDatabase = AnyDatabase> {
  readonly name: Kind & DatabaseKind;
  /** The database runs within the process: there are no round trips that calls could share. */
  readonly embedded: boolean;
  readonly defaults: { readonly schema: string; readonly inbox: string; readonly outbox: string };
  readonly names: (kind: QueueNames["kind"], schema: string, table: string) => QueueNames;
  readonly receiving: (names: QueueNames, options: ReceiveStatementOptions) => ReceiveStatements;
  /**
   * `receiveMany` takes items with `error` and `error_group`, and makes them dead when they are new or have new content → buried
   * as well. Without it `mark` follows. SQL Server has it, because there a receiver has no right to mark messages.
   */
  readonly receivesDead?: true;
  /** The most messages in one statement. More are sent in several statements of one transaction. */
  readonly maxItems?: number;
  readonly toTime: (date: Date) => SqlValue;
  /** The statements read the server's clock and no other. Undefined where they take the time as `:now`, which tests pass. */
  readonly ownClock?: true;
  readonly classify: (error: unknown) => Fault;
  /** The tables do not exist, or are older than this version. */
  readonly isSchemaMissing: (error: unknown) => boolean;
  /** The user lacks a right. Undefined where a database has no users. */
  readonly isDenied?: (error: unknown) => boolean;
  /** A read waited for an open transaction for as long as it may. Undefined where reads never wait. */
  readonly isLockTimeout?: (error: unknown) => boolean;
}

/** A database as data: its names, schema and statements, and how values cross the boundary. */
export interface Dialect<Kind extends AnyDatabase = AnyDatabase> extends ReceivingDialect<Kind> {
  readonly inbox: (names: QueueNames, options: QueueStatementOptions) => InboxStatements;
  readonly outbox: (names: QueueNames, options: QueueStatementOptions) => OutboxStatements;
  readonly keys: (names: QueueNames) => KeyStatements;
  /**
   * As `ack` of a queue, and then enqueues `:outgoing` in an outbox, which may be the same: JSON objects as of `enqueueOnce`, each
   * with `handled`, the number of a message in `:items`; only those whose message was acknowledged. `:keyed`, `:once`: some have
   * partition keys, some have natural keys, no two of which are the same in one topic. → the rows of `ack`, and `seq` null with
   * id, known_id as of `enqueueOnce`; or both in the same rows. Undefined where the database runs in this process.
   */
  readonly ackAndEnqueue?: (queue: QueueNames, outbox: QueueNames) => SqlStatement;
  /** → queue: "inbox" and "outbox", each when a claim could find something in it. A dispatcher polls many databases with it. */
  readonly pollStatement?: (inbox: QueueNames, outbox: QueueNames) => SqlStatement;
  readonly migrations: Readonly<Record<QueueNames["kind"], readonly Migration[]>>;
  /** Re-created by every migrate (stored procedures, views). */
  readonly routines: (names: QueueNames) => readonly string[];
  /** Creates or replaces the view of an outbox in which a service's messages have the states of reliable messaging. */
  readonly sentView: (names: QueueNames) => readonly string[];
  readonly ledger: LedgerStatements;
  /** How `oncebox doctor` reads the database's catalogue. */
  readonly inspection: Inspection;
  /** A create failed because an object of that name exists, or exists as another kind of object. */
  readonly isNameTaken: (error: unknown) => boolean;
  /**
   * :name → locked, true when the lock was free. The transaction owns the lock and the statement never waits for it.
   * Commit, rollback and the end of the connection release it, so a killed function leaves no lock behind. Undefined
   * where a transaction has the database for itself.
   */
  readonly idempotencyLock: SqlStatement | undefined;
  /** The text between two batches of a rendered schema. */
  readonly batchSeparator: string;
  readonly fromTime: (value: unknown) => Date;
}

export interface LedgerEntry {
  readonly queue: string;
  readonly number: number;
  readonly name: string;
}

/** How migrations are locked, recorded and run. */
export interface LedgerStatements {
  /** Creates the schema and the ledger where they do not exist. */
  readonly prepare: (schema: string) => readonly string[];
  /** → number of each migration that was applied to :queue */
  readonly applied: (schema: string) => SqlStatement;
  /** An insert with its values written out, for `migrate` and for the rendered schema that a DBA runs. */
  readonly record: (schema: string, entry: LedgerEntry) => string;
  /**
   * A migration and its record as one batch that does nothing when the ledger has it, for a rendered schema that may be run
   * twice. Undefined where a script cannot ask.
   */
  readonly once?: (schema: string, entry: LedgerEntry, batches: readonly string[]) => string;
}

/** A database for a function that only puts messages into it: its bundle holds nothing else of the dialect. */
export interface ReceivingDatabase<Kind extends AnyDatabase = AnyDatabase> {
  readonly dialect: ReceivingDialect<Kind>;
  readonly driver: SqlDriver<Kind>;
  /** For logs; never a secret. */
  readonly id: string;
  /** Of a database that does the same and something besides, as that of an app: the one that it was made of. */
  readonly original?: object;
  close(): Promise<void>;
}

/** By this two databases are compared: queues of one can share a transaction. */
export const originalOf = (db: ReceivingDatabase): object => db.original ?? db;

/** A queue, named as for `createInbox` and `createOutbox`. */
export interface NotifyQueue {
  readonly kind: "inbox" | "outbox";
  readonly schema?: string;
  readonly table?: string;
}

/** How a database wakes workers by a commit, also by one of other code and other processes. */
export interface CommitNotifications {
  /** From now on commits notify. Run it where you migrate; it may be repeated. */
  enable(queue: NotifyQueue): Promise<void>;
  /** No more. */
  disable(queue: NotifyQueue): Promise<void>;
  /** Listens on a connection of its own. */
  wakeUp(queue: NotifyQueue, logger: Logger): WakeUpSource;
}

/** An open database: a dialect and its driver. Made by `oncebox/postgres`, `oncebox/sqlserver` and `oncebox/sqlite`. */
export interface Database<Kind extends AnyDatabase = AnyDatabase> extends ReceivingDatabase<Kind> {
  readonly dialect: Dialect<Kind>;
  /** Runs `work` alone among all processes that migrate this schema, in a transaction where DDL allows one. */
  exclusively<T>(schema: string, work: (tx: SqlExecutor<Kind>) => Promise<T>): Promise<T>;
  /** Only PostgreSQL has it. */
  readonly notifications?: CommitNotifications;
  /** What is wrong with the way to the server, for `oncebox doctor`. Only PostgreSQL has it. */
  wrongConnection?(): Promise<readonly WrongSetting[]>;
}

export type Rows = readonly SqlRow[];
