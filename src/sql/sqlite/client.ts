import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { DriverMissingError, InvalidOperationError } from "../../errors.js";
import type { QueryOptions, SqlDriver, SqlExecutor, SqlParams, SqlRow, SqlStatement } from "../driver.js";
import { parameterNames } from "../named-parameters.js";

/** The part of `node:sqlite`'s API that is used; `@photostructure/sqlite` and better-sqlite3 have it too. */
export interface SqliteStatement {
  all(params: Record<string, unknown>): unknown[];
  run(params: Record<string, unknown>): unknown;
}

export interface SqliteConnection {
  prepare(text: string): SqliteStatement;
}

export interface SqliteHandle extends SqliteConnection {
  exec(text: string): void;
  close(): void;
}

interface PreparedStep {
  readonly statement: SqliteStatement;
  readonly names: readonly string[];
  readonly returnsRows: boolean;
}

/** Runs a statement's steps on one connection, in whatever transaction is open on it. */
export function stepRunner(connection: SqliteConnection) {
  const prepared = new Map<string, PreparedStep>();

  const prepare = (text: string): PreparedStep => {
    let step = prepared.get(text);
    if (step === undefined) {
      step = {
        statement: connection.prepare(text),
        names: parameterNames(text),
        returnsRows: /^\s*(select|with|pragma)\b|\breturning\b/i.test(text),
      };
      prepared.set(text, step);
    }
    return step;
  };

  return (statement: SqlStatement, params: SqlParams): readonly SqlRow[] => {
    let rows: readonly SqlRow[] = [];
    for (const text of statement.steps) {
      const step = prepare(text);
      if (step.names.includes("rows") && rows.length === 0) return [];
      const bound = bind(step.names, params, rows);
      if (step.returnsRows) rows = step.statement.all(bound) as SqlRow[];
      else step.statement.run(bound);
    }
    return rows;
  };
}

function bind(names: readonly string[], params: SqlParams, rows: readonly SqlRow[]): Record<string, unknown> {
  const bound: Record<string, unknown> = {};
  for (const name of names) {
    const value = name === "rows" ? JSON.stringify(rows) : (params[name] ?? null);
    bound[name] = typeof value === "boolean" ? Number(value) : value;
  }
  return bound;
}

export type Synchronous = "normal" | "full";

/**
 * MSG-11. `normal` survives a crash of the process; `full` also one of the machine, at an fsync per commit.
 * The wait for locks is ours (`whenFree`), because SQLite's own would hold the thread.
 */
const pragmas = (synchronous: Synchronous) => `
pragma busy_timeout = 0;
pragma journal_mode = wal;
pragma synchronous = ${synchronous};
pragma cache_size = -8000;
pragma foreign_keys = on;
pragma temp_store = memory;
`;

export interface SqliteClientOptions {
  readonly file: string;
  readonly synchronous: Synchronous;
}

/** One connection, opened at first use. A transaction has it to itself; other calls wait their turn. */
export function sqliteClient(options: SqliteClientOptions): SqlDriver {
  let opening: Promise<SqliteHandle> | undefined;
  let run: ReturnType<typeof stepRunner> | undefined;
  let turn: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  const insideTransaction = new AsyncLocalStorage<true>();

  const open = async (): Promise<SqliteHandle> => {
    opening ??= openHandle(options).catch((error) => {
      opening = undefined;
      throw error;
    });
    const handle = await opening;
    run ??= stepRunner(handle);
    return handle;
  };

  /** In order of arrival; nothing interleaves with what one caller does. */
  const inTurn = async <T>(work: () => Promise<T> | T): Promise<T> => {
    if (insideTransaction.getStore()) {
      throw new InvalidOperationError(
        "This call would wait for the SQLite transaction that it is made in. Pass the transaction on: { tx }.",
      );
    }
    const before = turn;
    let done = (): void => {};
    turn = new Promise<void>((resolve) => {
      done = resolve;
    });
    waiting++;
    try {
      if (waiting > 1) await before;
      return await work();
    } finally {
      waiting--;
      done();
    }
  };

  /** All of it at once: a pause between begin and commit would hold the lock for as long as others keep the thread. */
  const runSteps = (handle: SqliteHandle, statement: SqlStatement, params: SqlParams): readonly SqlRow[] => {
    if (statement.steps.length === 1) return run!(statement, params);
    handle.exec("begin immediate");
    try {
      const rows = run!(statement, params);
      handle.exec("commit");
      return rows;
    } catch (error) {
      rollBack(handle);
      throw error;
    }
  };

  const runTransaction = async <T>(handle: SqliteHandle, work: () => Promise<T>): Promise<T> => {
    try {
      const result = await work();
      await whenFree(() => handle.exec("commit"));
      return result;
    } catch (error) {
      rollBack(handle);
      throw error;
    }
  };

  return {
    async query(statement, params, queryOptions) {
      const handle = await open();
      return inTurn(() => whenFree(() => runSteps(handle, statement, params), queryOptions?.signal));
    },
    async transaction<T>(work: (tx: SqlExecutor) => Promise<T>, queryOptions?: QueryOptions) {
      const handle = await open();
      const tx: SqlExecutor = { query: async (statement, params) => run!(statement, params) };
      return inTurn(async () => {
        await whenFree(() => handle.exec("begin immediate"), queryOptions?.signal);
        return insideTransaction.run(true, () => runTransaction(handle, () => work(tx)));
      });
    },
    async close() {
      const handle = await opening?.catch(() => undefined);
      opening = undefined;
      run = undefined;
      handle?.close();
    },
  };
}

/** How long to wait for another writer, as the recommended busy_timeout of 5 s does. */
const busyTimeoutMs = 5_000;

/**
 * Tries again while another connection has the lock. In between the thread is free: the other connection
 * may be this process's own, and could never commit while SQLite sleeps.
 */
async function whenFree<T>(work: () => T, signal?: AbortSignal): Promise<T> {
  const giveUpAt = performance.now() + busyTimeoutMs;
  for (let waitMs = 1; ; waitMs = Math.min(waitMs * 2, 50)) {
    signal?.throwIfAborted();
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() > giveUpAt) throw error;
    }
    await sleep(waitMs * (0.5 + Math.random()));
  }
}

/** SQLITE_BUSY and SQLITE_LOCKED with their extended codes, whichever way the binding names them. */
export function isBusy(error: unknown): boolean {
  const { errcode, code, message } = error as { errcode?: number; code?: string; message?: string };
  const primary = errcode === undefined ? undefined : errcode & 0xff;
  return (
    primary === 5 ||
    primary === 6 ||
    /^SQLITE_(BUSY|LOCKED)/.test(code ?? "") ||
    /database (table )?is locked/.test(message ?? "")
  );
}

/** SQLite ends the transaction by itself on some errors; then there is nothing to roll back. */
function rollBack(handle: SqliteHandle): void {
  try {
    handle.exec("rollback");
  } catch {
    // the error that led here is the one to report
  }
}

async function openHandle(options: SqliteClientOptions): Promise<SqliteHandle> {
  const DatabaseSync = await loadSqlite();
  let handle: SqliteHandle;
  try {
    handle = new DatabaseSync(options.file);
  } catch (error) {
    throw new InvalidOperationError(`The SQLite file ${options.file} cannot be opened: ${messageOf(error)}`, {
      cause: error,
    });
  }
  await whenFree(() => handle.exec(pragmas(options.synchronous)));
  return handle;
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

type SqliteModule = { readonly DatabaseSync: new (file: string) => SqliteHandle };

/** Node's own from 22.13; before that the package with the same API. */
export async function loadSqlite(): Promise<SqliteModule["DatabaseSync"]> {
  const builtIn: string = "node:sqlite";
  try {
    return ((await import(builtIn)) as SqliteModule).DatabaseSync;
  } catch {
    // an older Node
  }
  try {
    return ((await import("@photostructure/sqlite")) as unknown as SqliteModule).DatabaseSync;
  } catch (error) {
    throw new DriverMissingError("@photostructure/sqlite", "SQLite on Node before 22.13", error);
  }
}
