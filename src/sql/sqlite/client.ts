import { AsyncLocalStorage } from "node:async_hooks";
import { abortable, memoisePromise } from "../../base/async.js";
import { DriverMissingError, InvalidOperationError } from "../../errors.js";
import {
  closedError,
  endedError,
  type SqlDriver,
  type SqlExecutor,
  type SqlParams,
  type SqlRow,
  type SqlStatement,
  transactionScope,
} from "../driver.js";
import {
  damagedError,
  isDamaged,
  needsTransaction,
  oneAtATime,
  type PreparedText,
  type RunStatement,
  requireOpen,
  type SqliteTransactionConnection,
  statementsOn,
  whenFree,
} from "./connection.js";
import { guarded } from "./guarded.js";

export interface SqliteHandle extends SqliteTransactionConnection {
  exec(text: string): void;
  function(name: string, call: (value: unknown) => null): void;
  close(): void;
}

export type Synchronous = "normal" | "full";

export interface SqliteClientOptions {
  readonly file: string;
  readonly synchronous: Synchronous;
}

interface Opened {
  readonly handle: SqliteHandle;
  readonly run: RunStatement;
  readonly begin: PreparedText;
  readonly commit: PreparedText;
}

/** One connection, opened at first use. A transaction has it to itself; other calls wait until it has ended. */
export function sqliteClient(options: SqliteClientOptions): SqlDriver<"sqlite"> {
  const opening = memoisePromise(() => openFile(options));
  const isInTransaction = new AsyncLocalStorage<{ open: boolean }>();
  const runAlone = oneAtATime();
  let isUsed = false;
  let opened: Opened | undefined;
  let closing: Promise<void> | undefined;

  const open = async (): Promise<Opened> => {
    if (closing !== undefined) throw closedError();
    isUsed = true;
    opened ??= await opening();
    return opened;
  };

  const alone = async <T>(
    work: (opened: Opened) => Promise<T> | T,
    signal: AbortSignal | undefined,
  ): Promise<T> => {
    signal?.throwIfAborted();
    if (isInTransaction.getStore()?.open) throw waitsForItself();
    const current = closing === undefined && opened !== undefined ? opened : await open();
    return runAlone(() => work(current), signal);
  };

  const close = async (): Promise<void> => {
    const last = isUsed ? await opening().catch(() => undefined) : undefined;
    if (last !== undefined) await runAlone(() => last.handle.close());
  };

  return {
    query: async (statement, params, { signal } = {}) =>
      alone((opened) => whenFree(() => runAtOnce(opened, statement, params), signal), signal),

    transaction: async (work, { signal } = {}) =>
      alone(async (opened) => {
        await whenFree(() => opened.begin.run(), signal);
        return runTransaction(opened, isInTransaction, work, signal);
      }, signal),

    async open() {
      await open();
    },

    close() {
      closing ??= close();
      return closing;
    },
  };
}

const waitsForItself = () =>
  new InvalidOperationError(
    "This call would wait for the SQLite transaction that it is made in. Pass the transaction on: { tx }.",
  );

/** Runs from begin to commit synchronously, so that no other work can prolong the lock. */
function runAtOnce(opened: Opened, statement: SqlStatement, params: SqlParams): readonly SqlRow[] {
  const { handle, run, begin, commit } = opened;
  if (!needsTransaction(statement)) return run(statement, params);
  begin.run();
  try {
    const rows = run(statement, params);
    commit.run();
    return rows;
  } catch (error) {
    rollBack(handle);
    throw error;
  }
}

/** Runs `work` in the transaction that has begun, and ends it. */
async function runTransaction<T>(
  { handle, run, commit }: Opened,
  isInTransaction: AsyncLocalStorage<{ open: boolean }>,
  work: (tx: SqlExecutor<"sqlite">) => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  const inside = { open: true };
  let native: SqliteHandle | undefined;
  const scope = transactionScope<"sqlite">({
    get native() {
      // The connection is the next transaction's too, and a handler that was given up may have kept it.
      native ??= guarded(handle, () => {
        if (!inside.open) throw endedError();
        requireOpen(handle);
      });
      return native;
    },
    async query(statement, params) {
      requireOpen(handle);
      return run(statement, params);
    },
  });
  const end = (): void => {
    scope.end();
    inside.open = false;
    isInTransaction.disable(); // before Node 24, a storage in use slows down every promise of the process
  };
  try {
    // After an abort the transaction is rolled back while `work` may still run; `scope` refuses its statements then.
    const result = await abortable(
      isInTransaction.run(inside, () => work(scope.tx)),
      signal,
    );
    end();
    await whenFree(() => commit.run());
    return result;
  } catch (error) {
    end();
    rollBack(handle);
    throw error;
  }
}

/** SQLite ends the transaction by itself on some errors; then there is nothing to roll back. */
function rollBack(handle: SqliteHandle): void {
  try {
    handle.exec("rollback");
  } catch {
    // the error that led here is the one to report
  }
}

/**
 * `normal` survives a crash of the process; `full` also one of the machine, at an fsync per commit.
 * `busy_timeout` is 0 because `whenFree` waits instead.
 */
const pragmas = (synchronous: Synchronous) => `
pragma busy_timeout = 0;
pragma journal_mode = wal;
pragma synchronous = ${synchronous};
pragma cache_size = -8000;
pragma foreign_keys = on;
pragma temp_store = memory;
`;

async function openFile({ file, synchronous }: SqliteClientOptions): Promise<Opened> {
  const DatabaseSync = await loadSqlite();
  let handle: SqliteHandle;
  try {
    handle = new DatabaseSync(file);
  } catch (error) {
    throw new InvalidOperationError(`The SQLite file ${file} cannot be opened: ${messageOf(error)}`, {
      cause: error,
    });
  }
  await whenFree(() => handle.exec(pragmas(synchronous))).catch((error) => {
    handle.close(); // the next call opens another, and a file that is in use cannot be restored
    throw explained(file, error);
  });
  const run = statementsOn(handle);
  return {
    handle,
    run(statement, params) {
      try {
        return run(statement, params);
      } catch (error) {
        throw explained(file, error);
      }
    },
    begin: handle.prepare("begin immediate"),
    commit: handle.prepare("commit"),
  };
}

/** SQLite does not say which file is damaged, nor what to do. */
const explained = (file: string, error: unknown): unknown =>
  isDamaged(error) ? damagedError(file, messageOf(error), error) : error;

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

export interface SqliteModule {
  readonly DatabaseSync: new (file: string, options?: { readonly readOnly: boolean }) => SqliteHandle;
  /** Node's own has it from 22.16. */
  readonly backup?: (
    source: SqliteHandle,
    file: string,
    options: { readonly rate: number; readonly progress: () => void },
  ) => Promise<number>;
}

/** Node's own from 22.13; before that the package with the same API. */
export async function loadSqliteModule(): Promise<SqliteModule> {
  const builtIn = process.getBuiltinModule?.("node:sqlite") as SqliteModule | undefined;
  if (builtIn !== undefined) return builtIn;
  try {
    return (await import("@photostructure/sqlite")) as unknown as SqliteModule;
  } catch (error) {
    throw new DriverMissingError("@photostructure/sqlite", "SQLite on Node before 22.13", error);
  }
}

export const loadSqlite = async (): Promise<SqliteModule["DatabaseSync"]> =>
  (await loadSqliteModule()).DatabaseSync;
