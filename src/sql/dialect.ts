import type { Logger } from "../base/logger.js";
import type { WakeUpSource } from "../dispatch/worker.js";
import type { Fault, SqlDriver, SqlExecutor, SqlRow, SqlStatement, SqlValue } from "./driver.js";
import type { Inspection } from "./inspection.js";
import type { QueueNames } from "./names.js";

/**
 * The values of the status column of a state row. This table says which columns mean what, on every database. The states'
 * public names (Seen, Processing, InProgress, …) are made of it in queue-shape.ts and in the views.
 *
 * | a message is            | SQL Server and SQLite                                            | PostgreSQL, where it differs          |
 * |-------------------------|------------------------------------------------------------------|---------------------------------------|
 * | known, not enqueued     | seen                                                             |                                       |
 * | waiting for its time    | ready; visible_at is the time; owner and locked_until are null   |                                       |
 * | unclaimed (SQLite only) | no state row: due since it arrived, and never claimed            | does not exist                        |
 * | leased                  | held; owner; locked_until is the end of the lease; visible_at is the end of the lease and the back-off after it | ready; visible_at stays; reclaimable_at has the end and the back-off |
 * | lost by its worker      | as leased, and visible_at has come                               | as leased, and reclaimable_at has come       |
 * | reaped after a crash    | held; crashes > 0; owner and locked_until are null; visible_at is the time | ready; crashes > 0; reclaimable_at is the time |
 * | released                | held; owner and locked_until are null; visible_at is the time of the release | ready; reclaimable_at is null |
 * | marked Processing       | held; owner and locked_until are null; visible_at is the end of time | held; visible_at is not read |
 * | blocked, not the head   | blocked; it becomes ready when it is the head of its partition queue |                                   |
 * | parked                  | parked; parked_by is the control; visible_at is the time from which it was due; owner and locked_until are null | and reclaimable_at |
 * | done                    | done; processed_at, processed_by; owner and locked_until are null | no state row; a row in `_done`       |
 * | dead                    | dead; last_error; owner and locked_until are null                |                                       |
 * | dead, its expiry is told | dead; last_error; owner; locked_until is when another process may tell it |                              |
 * | a leased key            | leased; owner is the lease id; locked_until is the end of the lease; visible_at is when it was acquired; attempt counts how often |      |
 * | a free key              | as a leased one whose locked_until has come; or, when it was released, owner and locked_until are null |  |
 *
 * Keys belong to an inbox store (src/service): the dispatcher neither claims, reaps, expires nor purges them. Their lease is
 * decided by locked_until alone.
 *
 * passes names the limits that have freed a message: they do not park it again. A claim that returns the message empties it,
 * so that retries count too. See docs/decisions/0020.
 *
 * A column that the table does not name for a state keeps an earlier value, and nothing reads it then.
 *
 * Why they differ:
 * - PostgreSQL has reclaimable_at, and a lease does not change the status: a claim then changes no indexed column, and the update
 *   touches no index. See docs/decisions/0002 and 0008.
 * - PostgreSQL moves done messages out of the state table: claims and vacuum stay as fast with months of them as with
 *   none. See docs/decisions/0008. SQL Server and SQLite have filtered indexes instead, which done rows are not in.
 * - SQLite has no state row for an unclaimed message: a receive writes two b-trees instead of four. That raised its speed
 *   from 0.56 to 0.86–1.0 of a bare insert. See docs/decisions/0009. This works only where row numbers follow the commit
 *   order, which SQLite's single writer ensures.
 * - PostgreSQL and SQL Server mark the state rows of messages with a partition key (`keyed`). The settlement of another
 *   message then takes no lock and does not query the partition queue; on SQLite that query costs no round trip.
 */
export const status = {
  /** Inbox only. */
  seen: 0,
  ready: 1,
  held: 2,
  done: 3,
  dead: 4,
  blocked: 5,
  /** Inbox only: a key of an inbox store that was acquired and not finished. */
  leased: 6,
  parked: 7,
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
  /** Moves dead messages into the archive, as `:who`. An inbox keeps their keys as done, without content, and ended as `:ended_as` → seq */
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
  /** Ends the pause, when `:paused` is true, or else the limit → the control as it is then; none when there was none */
  readonly endControl: SqlStatement;
}

/**
 * What operators read to see how a queue is doing. The three of activity read up to `:limit` rows with numbers below
 * `:before_seq`, the highest first, and count them by the bucket of `:bucket_ms` after `:since` in which it happened → bucket
 * (negative: earlier, or not at all), count, first_seq (the lowest number)
 */
export interface OperatorReadStatements extends DeadStatements {
  /** → id, scope, name ('' of the whole queue), paused, per_second, who, changed_at and parked of each control */
  readonly controls: SqlStatement;
  /** → one row: count of the messages that are to be handled, `:limit` of each kind at most; now */
  readonly unfinished: SqlStatement;
  readonly enqueuedBefore: SqlStatement;
  readonly doneBefore: SqlStatement;
  readonly diedBefore: SqlStatement;
  /**
   * → partition_key, waiting, waiting_since (of the oldest message behind), and of the first message: the key columns, topic, status,
   * leased, attempt, last_error, next_attempt_at, died_at
   */
  readonly blockedPartitions: SqlStatement;
  /**
   * The first `:limit` messages whose correlation id is `:correlation_id`, whose message id it is (inbox), or whose id is `:id` (outbox)
   * → key columns, message_id, topic, status, leased, correlation_id, partition_key, attempt, last_error, enqueued_at,
   * first_failed_at, processed_at, died_at; ended_as (inbox)
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
   * → message rows, each with `verdict`: claimed (or none); controlled, that is claimed while the queue has controls; expired
   * or exhausted, that is dead now. When nothing is claimed and the queue has controls, one row without `seq`: its verdict
   * is controlled or, when the whole queue is paused, paused.
   */
  readonly claim: SqlStatement;
  /**
   * After a claim that returned the verdict controlled. Of the claimed messages in `:items`, parks those that a control applies to;
   * frees parked ones: of a limit as many as it has tokens, `:limit` at most, of a control that has ended a batch; and
   * deletes ended controls that have none left → one row: `kept`, a JSON array of the row numbers that `:owner` still
   * holds; `freed`; `returned`, the part of it whose control has ended; `ending`, the number of ended controls that are
   * left; `wait_ms` until a limit has its next token, null when no message waits for one
   */
  readonly applyControls: SqlStatement;
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
  /** Of one `:source`, or of all when it is null → one row: deleted, last_seq, more */
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
  /** The same, where `get` may read what another transaction has not committed. */
  readonly getCommitted?: SqlStatement;
  /** → attempt, ended_at, worker, error of the failed attempts of a message, the oldest first */
  readonly attempts: SqlStatement;
  /** → message rows; of those that an operator has ended as `:ended_as`, when it is not null */
  readonly list: SqlStatement;
  /**
   * → rows that are added up: status, leased, retried (attempt > 0), held (waits for the pause of its topic or source), count, due,
   * oldest_due_ms, expired (dead, and past the expiry), paused (the whole queue), ended_as (done by an operator; inbox)
   */
  readonly stats: SqlStatement;
  /** → one row: oldest_due_ms, null while the queue is paused. It reads only messages that are not finished. */
  readonly oldestDue: SqlStatement;
  /** → seq */
  readonly replay: SqlStatement;
}

export interface ReceiveStatements {
  /** One message, scalar parameters → outcome; or the columns it is made of: content_changed, enqueued, old_status */
  readonly receive: SqlStatement;
  /** Many, as JSON → the same and the key columns */
  readonly receiveMany: SqlStatement;
  /** As receiveMany, when some have a partition key: they join their partition queues in this order */
  readonly receiveKeyed: SqlStatement;
  /** By hand, past any lease: Processing only from Seen; Dead never from Done → seq, when it changed something */
  readonly mark: SqlStatement;
}

export interface InboxStatements extends QueueStatements {
  /** → processed, content_changed */
  readonly alreadyProcessed: SqlStatement;
}

/**
 * Statements on the keys of an inbox store, one round trip each. They lock the message before its state, and read the clock
 * when they hold the lock.
 */
export interface KeyStatements {
  /** Inserts an unknown key, and leases a free one → status; mine, when it is leased under `:owner`; locked_until */
  readonly tryBegin: SqlStatement;
  /**
   * The same for several keys in one transaction, in the order of `:items`, no two alike → message_id and the row of each key.
   * Where calls of one process can share a round trip.
   */
  readonly tryBeginMany?: SqlStatement;
  /** → locked_until, when `:owner` holds the key */
  readonly renewKey: SqlStatement;
  /** → any row, when `:owner` held the key, or has finished it before */
  readonly finishKey: SqlStatement;
  /** → any row, when `:owner` held the key */
  readonly releaseKey: SqlStatement;
  /** Writes nothing → status, live (its lease has not ended), attempt, first_seen_at, last_seen_at, locked_until, headers */
  readonly inspectKey: SqlStatement;
  /** Deletes keys of `:source` that were never finished and that nobody has held since the retention → one row: deleted */
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
}

export interface Migration {
  readonly number: number;
  readonly name: string;
  /** Batches, run in order in one transaction where the database has transactional DDL. */
  readonly up: (names: QueueNames) => readonly string[];
}

/** The part of a dialect that a function needs to put messages into an inbox. */
export interface ReceivingDialect {
  readonly name: "sqlserver" | "postgres" | "sqlite";
  /** The database runs within the process: there are no round trips that calls could share. */
  readonly embedded: boolean;
  readonly defaults: { readonly schema: string; readonly inbox: string; readonly outbox: string };
  readonly names: (kind: QueueNames["kind"], schema: string, table: string) => QueueNames;
  readonly receiving: (names: QueueNames, options: ReceiveStatementOptions) => ReceiveStatements;
  /**
   * `receiveMany` takes items with `error` and `error_group`, and makes them dead when they are new or have new content → buried
   * as well. Without it `mark` follows. SQL Server has it, because there a receiver has no right to mark messages.
   */
  readonly buries?: true;
  /** The most messages in one statement. More are sent in several statements of one transaction. */
  readonly mostItems?: number;
  readonly toTime: (date: Date) => SqlValue;
  readonly classify: (error: unknown) => Fault;
  /** The tables do not exist, or are older than this version. */
  readonly isSchemaMissing: (error: unknown) => boolean;
  /** The user lacks a right. Undefined where a database has no users. */
  readonly isDenied?: (error: unknown) => boolean;
}

/** A database as data: its names, schema and statements, and how values cross the boundary. */
export interface Dialect extends ReceivingDialect {
  readonly inbox: (names: QueueNames, options: QueueStatementOptions) => InboxStatements;
  readonly outbox: (names: QueueNames, options: QueueStatementOptions) => OutboxStatements;
  readonly keys: (names: QueueNames) => KeyStatements;
  /** → queue: "inbox" and "outbox", each when a claim could find something in it or has to free parked messages. A dispatcher polls many databases with it. */
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
export interface ReceivingDatabase {
  readonly dialect: ReceivingDialect;
  readonly driver: SqlDriver;
  /** For logs; never a secret. */
  readonly id: string;
  close(): Promise<void>;
}

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
  /** Listens on a connection of its own. */
  wakeUp(queue: NotifyQueue, logger: Logger): WakeUpSource;
}

/** An open database: a dialect and its driver. Made by `oncebox/postgres`, `oncebox/sqlserver` and `oncebox/sqlite`. */
export interface Database extends ReceivingDatabase {
  readonly dialect: Dialect;
  /** Runs `work` alone among all processes that migrate this schema, in a transaction where DDL allows one. */
  exclusively<T>(schema: string, work: (tx: SqlExecutor) => Promise<T>): Promise<T>;
  /** Only PostgreSQL has it. */
  readonly notifications?: CommitNotifications;
}

export type Rows = readonly SqlRow[];
