import type { SqlDriver, SqlExecutor, SqlRow, SqlStatement, SqlValue } from "./driver.js";
import type { QueueNames } from "./names.js";
import type { Fault } from "./transient-retry.js";

/** What the status column holds. The specifications' names are made of it in the views and in row-mapping. */
export const status = {
  /** Inbox only: known, not enqueued. */
  seen: 0,
  /** Claimable from its due time on. */
  ready: 1,
  /** Leased; or back from a crash and waiting to be claimed alone; or marked Processing by hand. */
  held: 2,
  done: 3,
  dead: 4,
  /** In line for its partition key, and not its turn. */
  blocked: 5,
} as const;

/** Statements on the state table: the same for inbox and outbox. In this order in every dialect's file. */
export interface QueueStatements {
  /** → message rows, each with `verdict`: claimed (or none) | expired | exhausted (the latter two are dead now). */
  readonly claim: SqlStatement;
  /** → seq; or one row: `whole`, when all of `:count` changed, and when not, `seqs` of those that did */
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
  /** → one row: deleted, last_seq, more */
  readonly purge: SqlStatement;
  /** → seq and the key columns of those that exist */
  readonly resolve: SqlStatement;
  /** → message rows */
  readonly get: SqlStatement;
  /** → message rows */
  readonly list: SqlStatement;
  /** → status, leased, count, due, oldest_due_ms */
  readonly stats: SqlStatement;
  /** → one row: oldest_due_ms. Looks at what is not finished, however much is kept. */
  readonly oldestDue: SqlStatement;
  /** → seq */
  readonly replay: SqlStatement;
}

export interface ReceiveStatements {
  /** One message, scalar parameters → outcome; or content_changed, enqueued, old_status, of which it is made */
  readonly receive: SqlStatement;
  /** Many, as JSON → the same and the key columns */
  readonly receiveMany: SqlStatement;
  /** As receiveMany, when some have a partition key: they get in line in their order */
  readonly receiveKeyed: SqlStatement;
}

export interface InboxStatements extends QueueStatements {
  /** → processed, content_changed */
  readonly alreadyProcessed: SqlStatement;
  /** → seq, when it changed something */
  readonly mark: SqlStatement;
}

export interface OutboxStatements extends QueueStatements {
  /** One message, scalar parameters → nothing: the caller made the id */
  readonly enqueue: SqlStatement;
  /** Many, as JSON → nothing */
  readonly enqueueMany: SqlStatement;
  /** As enqueueMany, when some have a partition key: they get in line in their order */
  readonly enqueueKeyed: SqlStatement;
}

export interface QueueStatementOptions {
  /** A dead message keeps its place in line, and those behind it wait. Otherwise the next one has its turn. */
  readonly blockOnDead: boolean;
}

export interface ReceiveStatementOptions {
  /** A dead message that arrives again becomes claimable, with attempt 0. */
  readonly reviveDead: boolean;
}

export interface Migration {
  readonly number: number;
  readonly name: string;
  /** Batches, run in order in one transaction where the database has transactional DDL. */
  readonly up: (names: QueueNames) => readonly string[];
}

/** What there is to know of a database to put messages into its inbox. */
export interface ReceivingDialect {
  readonly name: "sqlserver" | "postgres" | "sqlite";
  /** It answers within the process: there are no round trips that calls could share. */
  readonly embedded: boolean;
  readonly defaults: { readonly schema: string; readonly inbox: string; readonly outbox: string };
  readonly names: (kind: QueueNames["kind"], schema: string, table: string) => QueueNames;
  readonly receiving: (names: QueueNames, options: ReceiveStatementOptions) => ReceiveStatements;
  readonly toTime: (date: Date) => SqlValue;
  readonly classify: (error: unknown) => Fault;
  /** The tables are not there, or are older than this version. */
  readonly isSchemaMissing: (error: unknown) => boolean;
}

/** A database as data: its names, schema and statements, and how values cross the boundary. */
export interface Dialect extends ReceivingDialect {
  readonly inbox: (names: QueueNames, options: QueueStatementOptions) => InboxStatements;
  readonly outbox: (names: QueueNames, options: QueueStatementOptions) => OutboxStatements;
  /** → queue: "inbox" and "outbox", each when a claim could find something in it. For a dispatcher of many databases. */
  readonly due?: (inbox: QueueNames, outbox: QueueNames) => SqlStatement;
  readonly migrations: Readonly<Record<QueueNames["kind"], readonly Migration[]>>;
  /** Re-created by every migrate (stored procedures, views). */
  readonly routines: (names: QueueNames) => readonly string[];
  readonly ledger: LedgerStatements;
  /**
   * :name → locked, true when the lock was free. The transaction owns the lock and the statement never waits for it.
   * Commit, rollback and the end of the connection release it, so a killed function leaves no lock behind. Undefined
   * where a transaction has the database for itself.
   */
  readonly idempotencyLock: SqlStatement | undefined;
  /** What stands between two batches of a rendered schema. */
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
  /** Creates schema and ledger if they are not there; harmless when they are. */
  readonly prepare: (schema: string) => readonly string[];
  /** → number, of what is applied to the queue named by :queue */
  readonly applied: (schema: string) => SqlStatement;
  /** An insert with its values written out: what `migrate` runs, and what a DBA runs from the rendered schema. */
  readonly record: (schema: string, entry: LedgerEntry) => string;
}

/** A database that a function only puts messages into: its bundle holds nothing else of the dialect. */
export interface ReceivingDatabase {
  readonly dialect: ReceivingDialect;
  readonly driver: SqlDriver;
  /** For logs; never a secret. */
  readonly id: string;
  close(): Promise<void>;
}

/** An open database: a dialect and a driver that speaks it. Made by `oncebox/postgres` and its siblings. */
export interface Database extends ReceivingDatabase {
  readonly dialect: Dialect;
  /** Runs `work` alone among all processes that migrate this schema, in a transaction where DDL allows one. */
  exclusively<T>(schema: string, work: (tx: SqlExecutor) => Promise<T>): Promise<T>;
}

export type Rows = readonly SqlRow[];
