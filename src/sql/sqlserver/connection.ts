import { abortable } from "../../base/async.js";
import {
  asTransaction,
  endedError,
  type SqlExecutor,
  type SqlParams,
  type SqlQueryable,
  type SqlRow,
  type SqlStatement,
  type SqlValue,
  transactionScope,
} from "../driver.js";
import { toVariables } from "../named-parameters.js";

/** The part of mssql's Request that is used. */
export interface MssqlRequest {
  input(name: string, value: unknown): unknown;
  input(name: string, type: never, value: unknown): unknown;
  query(text: string): Promise<{ recordset?: unknown }>;
  batch(text: string): Promise<{ recordset?: unknown }>;
  cancel(): unknown;
}

/** What an mssql Transaction has; a caller's own comes as one. */
export interface MssqlTransaction {
  request(): MssqlRequest;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

export type Types = Readonly<Record<ParameterKind, unknown>>;

interface Started {
  /** Settles when the server is done with it, aborted or not. */
  readonly running: Promise<readonly SqlRow[]>;
  cancel(): void;
}

/** Without `types` mssql derives them from the values: a caller's transaction may belong to another copy of mssql. */
export function startRequest(
  request: MssqlRequest,
  statement: SqlStatement,
  params: SqlParams,
  types?: Types,
): Started {
  const { text, order } = toVariables(statement.text, params);
  for (const name of order) {
    const value = params[name] ?? null;
    if (types === undefined) request.input(name, parameterValue(value));
    else request.input(name, types[parameterKind(value)] as never, parameterValue(value));
  }
  // A batch of its own, not a call of sp_executesql: some DDL must be the only statement of its batch.
  const running = statement.unprepared ? request.batch(text) : request.query(text);
  return {
    running: running.then(({ recordset }) => (recordset ?? []) as readonly SqlRow[]),
    cancel: () => void request.cancel(),
  };
}

/** Runs `work` in a transaction that has begun, and ends it. */
export async function runTransaction<T>(
  transaction: MssqlTransaction,
  types: Types | undefined,
  work: (tx: SqlExecutor<"sqlserver">) => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  const tx = transactionExecutor(transaction, types);
  const scope = transactionScope<"sqlserver">({
    native: transaction,
    query: (s, p, o) => tx.query(s, p, { signal, ...o }),
  });
  try {
    const result = await abortable(work(scope.tx), signal);
    scope.end();
    await tx.idle();
    await transaction.commit();
    return result;
  } catch (error) {
    scope.end();
    // Where the server has rolled back already this fails, and the first error is the one to report.
    const undone = tx.idle().then(() => transaction.rollback().catch(() => {}));
    if (!signal?.aborted) await undone;
    throw error;
  }
}

interface TransactionExecutor extends SqlQueryable {
  /** Resolves when nothing runs on the connection any more. */
  idle(): Promise<void>;
  /** Refuses the statements that have not started yet. */
  refuseQueued(): void;
}

/**
 * One statement after the other: mssql refuses a second one on a transaction while the first still runs. A statement that
 * is aborted rejects when the server is done with it, so that the caller can roll back then.
 */
export function transactionExecutor(transaction: MssqlTransaction, types?: Types): TransactionExecutor {
  let last: Promise<unknown> = Promise.resolve();
  let refused = 0;
  let given = 0;
  return {
    idle: async () => {
      await last;
    },
    refuseQueued() {
      refused = given;
    },
    query(statement, params, { signal } = {}) {
      const number = ++given;
      const running = last.then(() => {
        signal?.throwIfAborted();
        if (number <= refused) throw endedError();
        return runToEnd(startRequest(transaction.request(), whileOpen(statement), params, types), signal);
      });
      last = running.catch(() => {});
      return running;
    },
  };
}

async function runToEnd({ running, cancel }: Started, signal: AbortSignal | undefined) {
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    return await running;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw isEnded(error) ? endedError(error) : error;
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}

type EndCallback = (error?: unknown) => void;
type End = (callback?: EndCallback) => unknown;

/**
 * A caller's own transaction, with its `commit` and `rollback` bound to the statements that were given before them. mssql's
 * own refuse to run while a request is in progress, and race with one that is about to start: its statement may then run
 * outside of the transaction, or after it. See docs/decisions/0024.
 */
export function callersTransaction(transaction: MssqlTransaction): SqlExecutor<"sqlserver"> {
  const executor = transactionExecutor(transaction);
  /** Called with a callback or without, as mssql's own. */
  const bind = (end: () => Promise<void>, prepare: () => void): End => {
    const endWhenIdle = async (): Promise<void> => {
      prepare();
      await executor.idle();
      await end.call(transaction);
    };
    return (callback) => {
      if (typeof callback !== "function") return endWhenIdle();
      endWhenIdle().then(() => callback(), callback);
      return transaction;
    };
  };
  Object.assign(transaction, {
    commit: bind(transaction.commit, () => {}),
    rollback: bind(transaction.rollback, executor.refuseQueued),
  });
  return asTransaction({ native: transaction, query: executor.query });
}

/** Error numbers from 50000 are free for applications. */
const endedNumber = 50_266;

/**
 * A text that fails when no transaction is open. SQL Server ends one by itself after a deadlock, or an error under XACT_ABORT.
 * Libraries do not notice, and what they send afterwards is committed on its own.
 */
const whileOpenText = (text: string): string =>
  `if @@trancount = 0 throw ${endedNumber}, N'The transaction has ended.', 1;\n${text}`;

/** Batches of their own, as DDL is, must begin with their own first word; only migrations send them. */
export const whileOpen = (statement: SqlStatement): SqlStatement =>
  statement.unprepared ? statement : { ...statement, text: whileOpenText(statement.text) };

/** The text above has failed, or mssql itself knows of no open transaction. */
export function isEnded(error: unknown): boolean {
  const { number, code } = (error ?? {}) as { readonly number?: unknown; readonly code?: unknown };
  return number === endedNumber || code === "ENOTBEGUN" || code === "EABORT";
}

type ParameterKind = "nvarchar(max)" | "bigint" | "float" | "bit" | "varbinary(max)";

/** The same type for every value of a kind, long or short: the server keeps a plan for each list of types. */
export function parameterKind(value: SqlValue): ParameterKind {
  if (typeof value === "number") return Number.isSafeInteger(value) ? "bigint" : "float";
  if (typeof value === "boolean") return "bit";
  return value instanceof Uint8Array ? "varbinary(max)" : "nvarchar(max)";
}

/** Drivers take bytes as a Buffer only. */
export const parameterValue = (value: SqlValue): SqlValue | Buffer =>
  value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
