/** What crosses the driver boundary. Dates go in as ISO strings or milliseconds, as the dialect says. */
export type SqlValue = string | number | boolean | Uint8Array | null;
export type SqlParams = Readonly<Record<string, SqlValue>>;
export type SqlRow = Readonly<Record<string, unknown>>;

/**
 * A named statement of a dialect. `steps` has one text, except on SQLite, where several run in
 * one transaction and each may read what the step before returned as the JSON parameter `:rows`:
 * an embedded database has no round trips to save, and no data-modifying CTEs either.
 */
export interface SqlStatement {
  readonly name: string;
  readonly steps: readonly string[];
  /**
   * SQLite: a select of one row, run first. Its columns are parameters of the steps, and columns of every row answered;
   * `now` among them spares asking the clock.
   */
  readonly constants?: string;
  /** SQLite: the steps of the usual case. When the first of them answers no rows, they are left and `steps` run instead. */
  readonly shortcut?: readonly string[];
  /**
   * SQLite: a row of the first of them, made of its cells. As an object literal it takes a fraction of the time of
   * setting each column by its name.
   */
  readonly shortcutRow?: (cells: readonly unknown[], constants: SqlRow) => SqlRow;
  /**
   * SQLite: the same without row numbers in the answer, which take as long as the rest. It answers how many it
   * `changed`; when these are all of them (`:count`), they are known, and otherwise it is undone and the steps run.
   */
  readonly whole?: SqlStatement;
  /** SQLite: the same when some of the messages have a partition key, or when that is not known. */
  readonly keyed?: SqlStatement;
  /** Planned anew each time: for texts whose best plan depends on the parameters. */
  readonly unprepared?: boolean;
}

export interface QueryOptions {
  readonly signal?: AbortSignal | undefined;
}

/** One method: a connection, a pool and a caller's own transaction all have it. */
export interface SqlExecutor {
  query(statement: SqlStatement, params: SqlParams, options?: QueryOptions): Promise<readonly SqlRow[]>;
  /**
   * Statements of this transaction, its commit included, may be sent without waiting for the answers to those before.
   * When one of them fails, so does the commit.
   */
  readonly pipelines?: boolean;
}

/** A question that is on its way. */
export interface Asked {
  /** The first column of each row, as text. */
  readonly answers: Promise<readonly string[]>;
  /** Nobody waits for the answers any more: they reject with this, unless they have come. */
  cancel(reason: Error): void;
}

export interface SqlDriver extends SqlExecutor {
  /**
   * A statement without parameters, as thousands of tenants are asked again and again. A driver has it where `query`
   * with a signal would take noticeably longer than the question: see `ask`.
   */
  ask?(statement: SqlStatement): Asked;
  transaction<T>(work: (tx: SqlExecutor) => Promise<T>, options?: QueryOptions): Promise<T>;
  /** Makes a connection ahead of the first call, which waits for it if it comes meanwhile. */
  open?(): Promise<void>;
  close(): Promise<void>;
}

/** Asks by whichever way the driver has. */
export function ask(driver: Pick<SqlDriver, "ask" | "query">, question: SqlStatement): Asked {
  if (driver.ask !== undefined) return driver.ask(question);
  const over = new AbortController();
  const answers = driver.query(question, noParams, { signal: over.signal }).then(firstColumn);
  return { answers, cancel: (reason) => over.abort(reason) };
}

export const firstColumn = (rows: readonly SqlRow[]): readonly string[] =>
  rows.map((row) => String(Object.values(row)[0]));

const noParams: SqlParams = {};

export const statement = (name: string, ...steps: string[]): SqlStatement => ({ name, steps });
