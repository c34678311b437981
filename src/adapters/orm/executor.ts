import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import type { Dialect } from "../../sql/dialect.js";
import {
  type AdaptedTransaction,
  asTransaction,
  endedError,
  type SqlParams,
  type SqlRow,
  type SqlStatement,
} from "../../sql/driver.js";
import { type PositionalText, toOccurrences, toPositional, toVariables } from "../../sql/named-parameters.js";
import { runStepsAsync } from "../../sql/sqlite/connection.js";
import { isEnded, parameterKind, parameterValue, whileOpen } from "../../sql/sqlserver/connection.js";

/** How a library runs a text, with the values in the order of its placeholders. */
interface TextRunner {
  run(text: string, values: readonly unknown[]): Promise<readonly SqlRow[]>;
  /** The library's own placeholders for PostgreSQL and SQL Server, where these are not `$1` and `@p1`. */
  readonly placeholder?: (index: number, dialect: Dialect["name"]) => string;
  /** The library notices itself that SQLite has ended the transaction. */
  readonly refusesWhenEnded?: boolean;
}

/** A caller's transaction in another library, as the executor that stores take. */
export function executorOf(
  dialect: Dialect["name"],
  native: unknown,
  runner: TextRunner,
): AdaptedTransaction {
  return asTransaction({
    native,
    async query(statement, params) {
      try {
        return await runOn(dialect, runner, statement, params);
      } catch (error) {
        if (error instanceof TransactionEnded || isEnded(driverError(error))) throw endedError();
        throw withoutValues(error, statement.name);
      }
    },
  });
}

async function runOn(
  dialect: Dialect["name"],
  runner: TextRunner,
  statement: SqlStatement,
  params: SqlParams,
): Promise<readonly SqlRow[]> {
  if (dialect === "sqlite") {
    if (!runner.refusesWhenEnded) await requireOpenSqlite(runner);
    return runStepsAsync(statement, params, ({ text, values }) => runner.run(text, values));
  }
  const { text, order } =
    dialect === "postgres"
      ? postgresText(statement.text, runner)
      : sqlServerText(whileOpen(statement).text, params, runner);
  return runner.run(
    text,
    order.map((name) => parameterValue(params[name] ?? null)),
  );
}

class TransactionEnded extends Error {}

/**
 * SQLite ends a transaction by itself on some errors, the library does not notice, and what it sends afterwards is committed
 * on its own. SQLite has no question for it; but a `begin` fails exactly inside of a transaction, and changes nothing there.
 */
async function requireOpenSqlite(runner: TextRunner): Promise<void> {
  const isOpen = await runner.run("begin", []).then(
    () => false,
    (error: unknown) =>
      /within a transaction/.test(String(driverError(error).message)) || Promise.reject(error),
  );
  if (isOpen) return;
  await runner.run("rollback", []);
  throw new TransactionEnded();
}

/** Some libraries write the values into their errors, and a payload must not get into a caller's log with them. */
function withoutValues(error: unknown, what: string): Error {
  const { code, errcode, number } = driverError(error);
  const codes = Object.fromEntries(
    Object.entries({ code, errcode, number }).filter(([, value]) => value !== undefined),
  );
  const shown = Object.values(codes)[0];
  return Object.assign(
    new InvalidOperationError(`The statement "${what}" failed${shown === undefined ? "" : ` (${shown})`}.`),
    codes,
  );
}

interface DriverError {
  readonly message?: unknown;
  readonly code?: unknown;
  readonly errcode?: unknown;
  readonly number?: unknown;
}

/** Libraries wrap the error that the database's driver threw. */
function driverError(error: unknown): DriverError {
  const {
    cause,
    driverError: inner,
    meta,
  } = (error ?? {}) as { cause?: unknown; driverError?: unknown; meta?: unknown };
  const within = inner ?? cause ?? meta;
  return typeof within === "object" && within !== null ? driverError(within) : ((error ?? {}) as DriverError);
}

function postgresText(text: string, { placeholder }: TextRunner): PositionalText {
  if (placeholder === undefined) return toPositional(text);
  // The library writes its own placeholders: each occurrence has a value of its own.
  return toOccurrences(text, (index) => placeholder(index, "postgres"));
}

/** Declares the parameters as variables of their types: a library cannot tell the type of a null. */
function sqlServerText(
  statement: string,
  params: SqlParams,
  { placeholder = (n) => `@p${n}` }: TextRunner,
): PositionalText {
  const { text, order } = toVariables(statement, params);
  if (order.length === 0) return { text, order };
  const declared = order.map(
    (name, index) =>
      `@${name} ${parameterKind(params[name] ?? null)} = ${placeholder(index + 1, "sqlserver")}`,
  );
  return { text: `declare ${declared.join(", ")};\n${text}`, order };
}

const dialects: readonly string[] = ["postgres", "sqlite", "sqlserver"];

export function requireDialect(value: unknown, what: string): Dialect["name"] {
  if (dialects.includes(value as string)) return value as Dialect["name"];
  throw new InvalidArgumentError(
    `${what}: the transaction is on a database that oncebox does not support. Use PostgreSQL, SQL Server or SQLite.`,
  );
}

/** The statements of ours in the transactions of one connection of a library's, and the ends of these transactions. */
export interface TransactionEnd {
  /** Runs a statement; while a transaction ends, only after that. */
  before<T>(statement: () => Promise<T>): Promise<T>;
  /** Ends a transaction when the statements before it are done. */
  after<T>(end: () => Promise<T>): Promise<T>;
  /** How many transactions have ended. */
  count(): number;
}

const ends = new WeakMap<object, TransactionEnd>();

/**
 * Some libraries commit or roll back while a statement runs, or start the next one after that: it would be committed on its
 * own. `bind` is called once for each `owner`, the object by which the library ends its transactions, and makes it call
 * `after`. See docs/decisions/0024.
 */
export function transactionEnd(owner: object, bind: (end: TransactionEnd) => void): TransactionEnd {
  const known = ends.get(owner);
  if (known !== undefined) return known;
  const made = newEnd();
  ends.set(owner, made);
  bind(made);
  return made;
}

/** The executor until the transaction that is open now ends. */
export function untilEnd(end: TransactionEnd, executor: AdaptedTransaction): AdaptedTransaction {
  const endsBefore = end.count();
  return asTransaction({
    native: executor.native,
    query: (statement, params) =>
      end.before(async () => {
        if (end.count() !== endsBefore) throw endedError();
        return executor.query(statement, params);
      }),
  });
}

function newEnd(): TransactionEnd {
  const running = new Set<Promise<unknown>>();
  let ending: Promise<unknown> | undefined;
  let count = 0;
  return {
    async before(statement) {
      while (ending !== undefined) await ending;
      const started = statement();
      running.add(started);
      try {
        return await started;
      } finally {
        running.delete(started);
      }
    },
    async after(end) {
      const idle = Promise.allSettled(running);
      const ended = idle.then(end);
      const settled = ended.then(
        () => {},
        () => {},
      );
      ending = settled;
      try {
        return await ended;
      } finally {
        count++;
        if (ending === settled) ending = undefined;
      }
    },
    count: () => count,
  };
}

/** A text that ends a transaction, and not only a savepoint. */
export const endsTransaction = (text: string): boolean => /^\s*(commit|rollback)\s*;?\s*$/i.test(text);

/** Some drivers return an object with rows, others the rows themselves, and for a write the number of rows it changed. */
export function rowsOf(result: unknown): readonly SqlRow[] {
  const rows = Array.isArray(result) ? result : (result as { rows?: unknown } | null)?.rows;
  return Array.isArray(rows) ? (rows as readonly SqlRow[]) : [];
}
