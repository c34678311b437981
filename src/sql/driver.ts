import { abortable, sleep } from "../base/async.js";
import { requirePackage } from "../base/require-package.js";
import { DriverMissingError, InvalidArgumentError, InvalidOperationError } from "../errors.js";
import type { ReceivingDatabase } from "./dialect.js";
import type { AnyDatabase, NativeTransactions } from "./native.js";

/** The values that cross the driver boundary. Dates are sent as ISO strings or as milliseconds, as the dialect says. */
export type SqlValue = string | number | boolean | Uint8Array | null;
/** The parameters of a statement, by name. */
export type SqlParams = Readonly<Record<string, SqlValue>>;
/** A row that a statement returned, by the names of its columns. */
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
const transactionMark: unique symbol = Symbol.for("oncebox.transaction");

declare const kindOfDatabase: unique symbol;

/**
 * A transaction: `fromPg(client)`, `fromMssql(transaction)`, `fromSqlite(db)`, that of a library's adapter, or the `tx` of
 * `db.driver.transaction(…)`. It is marked, so that a driver's own client is not taken for one.
 *
 * @example
 * const insertOrder = statement("insert order", "insert into orders (id) values (:id)");
 * await tx.query(insertOrder, { id: 7 });
 */
export interface SqlExecutor<Kind extends AnyDatabase = AnyDatabase> extends SqlQueryable {
  /** Only for the compiler, which says this name when a driver's own object is given. */
  readonly "use fromPg(client), fromMssql(transaction), fromSqlite(db) or an adapter of oncebox/orm": true;
  /** Only for the compiler: a transaction on one database is not taken for one on another. */
  readonly [kindOfDatabase]: Kind;
  readonly [transactionMark]: true;
  /**
   * What the driver runs this transaction on: pg's client, mssql's transaction, node:sqlite's connection. For your own library:
   * `drizzle(tx.native)`. Its statements and those of `query` run in this one transaction, in the order in which they are
   * sent. Neither end the transaction by it nor keep it: what is sent by it after the end is outside of any transaction, or
   * refused where the store's driver on SQLite began it.
   */
  readonly native: NativeTransactions[Kind];
  /**
   * Statements of this transaction, its commit included, may be sent before the ones before them have returned.
   * When one of them fails, so does the commit.
   */
  readonly pipelines?: boolean;
}

/** What runs its statements in one open transaction. */
export interface TransactionParts extends SqlQueryable {
  /** As `pipelines` of a transaction; not by default. */
  readonly pipelines?: boolean;
  /** As `native` of a transaction. */
  readonly native?: unknown;
}

/** A transaction of a library that works on several databases: which one it is on is not known to the compiler. */
export type AdaptedTransaction = SqlExecutor<never>;

/**
 * Marks what runs its statements in one open transaction. For a library that has no adapter here.
 *
 * @example
 * const tx = asTransaction({ query: async ({ text }, params) => await order.run(text, params) });
 */
export const asTransaction = <Kind extends AnyDatabase = never>(
  executor: TransactionParts,
): SqlExecutor<Kind> => {
  const marked = {
    [transactionMark]: true,
    get native() {
      return executor.native;
    },
    pipelines: executor.pipelines ?? false,
    query: (statement, params, options) => executor.query(statement, params, options),
  } satisfies Omit<SqlExecutor, keyof TypeMarks>;
  return marked as unknown as SqlExecutor<Kind>;
};

/** What only the compiler knows of a transaction. */
type TypeMarks = Pick<
  SqlExecutor,
  | typeof kindOfDatabase
  | "use fromPg(client), fromMssql(transaction), fromSqlite(db) or an adapter of oncebox/orm"
>;

/** A pool of connections to a database, or its one connection. */
export interface SqlDriver<Kind extends AnyDatabase = AnyDatabase> extends SqlQueryable {
  /** Runs `work` in a transaction: commits when it resolves, rolls back when it rejects. */
  transaction<T>(work: (tx: SqlExecutor<Kind>) => Promise<T>, options?: QueryOptions): Promise<T>;
  /** Connects ahead of the first call. A call that comes meanwhile waits for that connection. */
  open?(): Promise<void>;
  close(): Promise<void>;
}

/** A truth value of a row: SQLite returns 1 and 0. */
export const isTrue = (value: unknown): boolean => value === true || value === 1;

/**
 * A row number of the database as a JavaScript number. One beyond 2^53 - 1 is refused: it would be rounded to the number
 * of a neighbour, and a settlement would end the lease of the wrong message.
 */
export function rowNumber(value: unknown): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw new InvalidOperationError(
    `The row number ${String(value)} is not a whole number up to 2^53 - 1, the largest that JavaScript holds exactly. Restart the table's numbers from a smaller one.`,
  );
}

const waysToTransaction =
  "fromPg(client), fromMssql(transaction), fromSqlite(db), or the tx of db.driver.transaction(…)";

/** What each library's own object is known by, and what to write instead. The first that fits counts. */
const transactionAdapters: readonly (readonly [methods: readonly string[], instead: string])[] = [
  [["query", "transaction"], "the tx of db.driver.transaction(async (tx) => …)"],
  [["query", "connect"], "fromPg(client), after its begin"],
  [["request", "commit"], "fromMssql(transaction), after its begin"],
  [["request"], "fromMssql(transaction), with a transaction of the pool that has begun"],
  [["prepare"], "fromSqlite(db), after its begin"],
  [["$queryRawUnsafe"], "fromPrisma(tx)"],
  [["executeQuery"], "fromKysely(trx)"],
  [["raw"], "fromKnex(trx)"],
  [["getRepository"], "fromTypeOrm(manager)"],
  [["rollback"], "fromDrizzle(tx)"],
];

/** Refuses what is no transaction of this package: its statements would run elsewhere, and be committed on their own. */
export function requireExecutor(tx: unknown): asserts tx is SqlExecutor {
  if ((tx as SqlExecutor | null | undefined)?.[transactionMark] === true) return;
  const has = (method: string) => typeof (Object(tx) as Record<string, unknown>)[method] === "function";
  const adapter = transactionAdapters.find(([methods]) => methods.every(has));
  throw new InvalidArgumentError(
    adapter === undefined
      ? `tx must be a transaction: ${waysToTransaction}. Leave it out for none.`
      : `tx is a library's own object. Give ${adapter[1]}.`,
  );
}

/**
 * What a database error means for trying again.
 * - `rolledBack`: the server undid the work, after a deadlock for example.
 * - `unavailable`: the server did nothing, because it moves to another node or is too busy. That takes seconds.
 * - `unknown`: the connection was lost, and the work may have been committed. The work is repeated all the same: receive
 *   and enqueue find their own keys, and a settlement finds that its owner no longer holds the message.
 * - `permanent`: the work would fail again.
 */
export type Fault = "rolledBack" | "unavailable" | "unknown" | "permanent";

export interface TransientRetry {
  readonly classify: (error: unknown) => Fault;
  readonly signal?: AbortSignal | undefined;
  readonly onRetry?: (error: unknown, retry: number) => void;
}

/** The waits before the 1st, 2nd … retry. With jitter, two calls that deadlocked do not meet again. */
const retryWaitsMs = [20, 80, 250, 800];
/** A fail-over takes up to ten seconds or more, and Azure asks for about ten when it refuses work. */
const unavailableWaitsMs = [250, 1_500, 4_000, 8_000];

/** Repeats `work`, which has just failed for the first time, while its faults are transient. */
export async function retryTransient<T>(
  failure: unknown,
  work: () => Promise<T>,
  { classify, signal, onRetry }: TransientRetry,
): Promise<T> {
  let error = failure;
  for (const [index, waitMs] of retryWaitsMs.entries()) {
    const fault = classify(error);
    if (signal?.aborted || fault === "permanent") throw error;
    onRetry?.(error, index + 1);
    await sleep(
      (fault === "unavailable" ? unavailableWaitsMs[index]! : waitMs) * (0.5 + Math.random()),
      signal,
    );
    try {
      return await work();
    } catch (again) {
      error = again;
    }
  }
  throw error;
}

/**
 * An executor that works until its transaction ends. Code that a failed `Promise.all` left running would otherwise write
 * outside of the transaction, or into the next one on the same connection.
 */
export function transactionScope<Kind extends AnyDatabase>(
  inner: TransactionParts,
): {
  readonly tx: SqlExecutor<Kind>;
  end(): void;
} {
  let ended = false;
  return {
    tx: asTransaction({
      get native() {
        if (ended) throw endedError();
        return inner.native;
      },
      pipelines: inner.pipelines ?? false,
      async query(statement, params, options) {
        if (ended) throw endedError();
        return inner.query(statement, params, options);
      },
    }),
    end() {
      ended = true;
    },
  };
}

/** Of a caller's transaction it is not always known whether it ever began. */
export const endedError = (cause?: unknown): InvalidOperationError =>
  new InvalidOperationError(
    "This transaction has ended, or never began: no statement can run in it, and nothing was written.",
    cause === undefined ? {} : { cause },
  );

export const closedError = (): InvalidOperationError => new InvalidOperationError("The database was closed.");

/**
 * Limits how many transactions are open at once. One connection is kept for statements outside of them: renewals of leases
 * and acknowledgements would otherwise wait for the handlers of these same messages.
 */
export const transactionSlots = (connections: number): Slots => slots(Math.max(1, connections - 1));

interface Slots {
  /** Takes a slot if one is free. Returns the function that gives it back. */
  tryTake(): (() => void) | undefined;
  /** Waits until a slot is free. Returns the function that gives it back. */
  take(signal?: AbortSignal): Promise<() => void>;
}

export function slots(count: number): Slots {
  let free = count;
  const waiting: (() => void)[] = [];
  const release = (): void => {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  };
  const once = (): (() => void) => {
    let given = false;
    return () => {
      if (!given) release();
      given = true;
    };
  };
  const tryTake = (): (() => void) | undefined => {
    if (free === 0) return undefined;
    free--;
    return once();
  };
  return {
    tryTake,
    async take(signal) {
      const taken = tryTake();
      if (taken !== undefined) return taken;
      await abortable(new Promise<void>((resolve) => waiting.push(resolve)), signal, { late: release });
      return once();
    },
  };
}

/** The connections of one instance at most, unless `maxConnections` says otherwise. The guides calculate with it. */
export const defaultConnections = 4;

/** Refuses to open a database without its driver, so that an app learns of it when it starts. The first query loads the driver. */
export const requireDriver = (driver: string, database: string): void =>
  requirePackage(driver, database, (...missing) => new DriverMissingError(...missing));

/** The file of a SQLite database; undefined for one in memory and for other databases. */
export function sqliteFileOf({ id, dialect }: Pick<ReceivingDatabase, "id" | "dialect">): string | undefined {
  const file = id.slice("sqlite:".length);
  return dialect.name !== "sqlite" || file === ":memory:" ? undefined : file;
}
