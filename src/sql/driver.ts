/** The values that cross the driver boundary. Dates are sent as ISO strings or as milliseconds, as the dialect says. */
export type SqlValue = string | number | boolean | Uint8Array | null;
export type SqlParams = Readonly<Record<string, SqlValue>>;
export type SqlRow = Readonly<Record<string, unknown>>;

/** A text with a name for logs and errors. */
export interface SqlStatement {
  readonly name: string;
  /** A parameter is written `:name` on every database. */
  readonly text: string;
  /**
   * The database plans the text anew each time and keeps nothing of it: for DDL, some of which SQL Server takes only
   * alone in its batch, and for a text whose best plan depends on its parameters (`list` on PostgreSQL).
   */
  readonly unprepared?: boolean;
}

/**
 * A statement of your own, for a transaction's `query`.
 *
 * @example
 * const insertOrder = statement("insert order", "insert into orders (id) values (:id)");
 * await tx.query(insertOrder, { id: 7 });
 */
export const statement = (name: string, text: string): SqlStatement => ({ name, text });

export interface QueryOptions {
  readonly signal?: AbortSignal | undefined;
}

/** A pool, a connection and a transaction all have this one method. */
export interface SqlQueryable {
  query(statement: SqlStatement, params: SqlParams, options?: QueryOptions): Promise<readonly SqlRow[]>;
}

/** The same symbol in every copy of this package: a process may load it as ESM and as CommonJS. */
export const transactionMark: unique symbol = Symbol.for("oncebox.transaction");

/**
 * A transaction: `fromPg(client)`, `fromMssql(transaction)`, `fromSqlite(db)`, that of a library's adapter, or the `tx` of
 * `db.driver.transaction(…)`. It is marked, so that a driver's own client is not taken for one.
 */
export interface SqlExecutor extends SqlQueryable {
  readonly [transactionMark]: true;
  /**
   * Statements of this transaction, its commit included, may be sent before the ones before them have returned.
   * When one of them fails, so does the commit.
   */
  readonly pipelines?: boolean;
}

/** Marks what runs its statements in one open transaction. For a library that has no adapter here. */
export const asTransaction = (executor: SqlQueryable & { readonly pipelines?: boolean }): SqlExecutor => ({
  [transactionMark]: true,
  pipelines: executor.pipelines ?? false,
  query: (statement, params, options) => executor.query(statement, params, options),
});

export interface SqlDriver extends SqlQueryable {
  transaction<T>(work: (tx: SqlExecutor) => Promise<T>, options?: QueryOptions): Promise<T>;
  /** Connects ahead of the first call. A call that comes meanwhile waits for that connection. */
  open?(): Promise<void>;
  close(): Promise<void>;
}
