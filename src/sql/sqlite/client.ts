import type { AsyncLocalStorage } from "node:async_hooks";
import { abortable } from "../../base/abortable.js";
import { sleep } from "../../base/wait.js";
import { DriverMissingError, InvalidOperationError } from "../../errors.js";
import {
  ask,
  firstColumn,
  type QueryOptions,
  type SqlDriver,
  type SqlExecutor,
  type SqlParams,
  type SqlRow,
  type SqlStatement,
} from "../driver.js";
import { toAnonymous } from "../named-parameters.js";
import { closedError, transactionScope } from "../transaction-scope.js";

/** The part of `node:sqlite`'s API that is used; `@photostructure/sqlite` and better-sqlite3 have it too. */
export interface SqliteStatement {
  all(...params: unknown[]): unknown[];
  run(...params: unknown[]): unknown;
  setReturnArrays?(enabled: boolean): void;
  columns?(): { readonly name: string }[];
  setReadBigInts?(enabled: boolean): unknown;
  safeIntegers?(enabled: boolean): unknown;
}

export interface SqliteConnection {
  prepare(text: string): SqliteStatement;
}

export interface SqliteHandle extends SqliteConnection {
  exec(text: string): void;
  close(): void;
}

interface PreparedStep {
  /** The name of each `?`, in order. */
  readonly order: readonly string[];
  readonly needsTime: boolean;
  readonly needsDead: boolean;
  readonly run: (values: readonly unknown[], constants: SqlRow) => readonly SqlRow[] | undefined;
}

/** What a statement's steps share beside the parameters. */
interface Run {
  readonly params: SqlParams;
  now: unknown;
  readonly random: number;
  constants: SqlRow;
}

type RowOfCells = NonNullable<SqlStatement["shortcutRow"]>;

type StepRunner = (statement: SqlStatement, params: SqlParams) => readonly SqlRow[];

/** In milliseconds. */
export const databaseClock = "cast(round(unixepoch('subsec') * 1000) as integer)";

/** Runs a statement's steps on one connection, in whatever transaction is open on it. */
export function stepRunner(connection: SqliteConnection): StepRunner {
  const prepared = new Map<string, PreparedStep>();
  let clock: SqliteStatement | undefined;

  /** The database's clock in milliseconds, read once for all steps and all rows. */
  const now = (): number => {
    clock ??= withNumbers(connection.prepare(`select ${databaseClock} as now`));
    return (clock.all() as { now: number }[])[0]!.now;
  };
  const prepare = (text: string, toRow?: RowOfCells): PreparedStep => {
    let step = prepared.get(text);
    if (step === undefined) {
      // Anonymous parameters: by name, the binding would walk over properties and look each one up twice.
      const { text: anonymous, order } = toAnonymous(text);
      const statement = withNumbers(connection.prepare(anonymous));
      step = {
        order,
        needsTime: order.includes("now"),
        needsDead: order.includes("dead_seqs"),
        run: answersRows(text) ? rowReader(statement, toRow) : (values) => void statement.run(...values),
      };
      prepared.set(text, step);
    }
    return step;
  };

  const execute = (
    text: string,
    run: Run,
    before: readonly SqlRow[],
    toRow?: RowOfCells,
  ): readonly SqlRow[] | undefined => {
    const step = prepare(text, toRow);
    if (step.needsTime) run.now ??= now();
    return step.run(bind(step.order, run, before), run.constants);
  };

  /** A step for those that died under the claim is not run for none: nearly always. */
  const isIdle = (text: string, rows: readonly SqlRow[]): boolean =>
    prepare(text).needsDead && !rows.some(isDead);

  const follow = (steps: readonly string[], run: Run, from: number, before: readonly SqlRow[]) => {
    let rows = before;
    for (let index = from; index < steps.length; index++) {
      const text = steps[index]!;
      if (!isIdle(text, rows)) rows = execute(text, run, rows) ?? rows;
    }
    return rows;
  };

  return ({ constants, shortcut, shortcutRow, steps }, params) => {
    // One time and one throw of the dice for all steps.
    const run: Run = { params, now: params.now ?? null, random: Math.random(), constants: noColumns };
    if (constants !== undefined) {
      run.constants = execute(constants, run, noRows)![0]!;
      run.now ??= run.constants.now ?? null;
    }
    const usual = shortcut === undefined ? noRows : execute(shortcut[0]!, run, noRows, shortcutRow)!;
    return usual.length > 0 ? follow(shortcut!, run, 1, usual) : follow(steps, run, 0, noRows);
  };
}

/** A caller's connection may answer integers as BigInts, by node:sqlite's setting or by better-sqlite3's. */
function withNumbers(statement: SqliteStatement): SqliteStatement {
  statement.setReadBigInts?.(false);
  statement.safeIntegers?.(false);
  return statement;
}

const noRows: readonly SqlRow[] = [];

/** By what the statement says of a row: `reaped` ones live on. */
const isDead = ({ verdict }: SqlRow): boolean => verdict === "expired" || verdict === "exhausted";
const noColumns: SqlRow = {};

/** `select …`, or `… returning …` outside of a quoted name. */
const answersRows = (text: string): boolean =>
  /^\s*(select|with|pragma)\b|\breturning\b/i.test(text.replace(/"(?:[^"]|"")*"/g, '""'));

/** Rows as arrays where the binding can: it then need not set each property across the language's border. */
function rowReader(statement: SqliteStatement, toRow?: RowOfCells): PreparedStep["run"] {
  if (statement.setReturnArrays === undefined || statement.columns === undefined) {
    return (values, constants) => statement.all(...values).map((row) => Object.assign({}, constants, row));
  }
  const read = toRow ?? byName(statement.columns().map((column) => column.name));
  statement.setReturnArrays(true);
  return (values, constants) =>
    (statement.all(...values) as unknown[][]).map((cells) => read(cells, constants));
}

const byName =
  (names: readonly string[]): RowOfCells =>
  (cells, constants) => {
    const row: Record<string, unknown> = Object.assign({}, constants);
    for (let index = 0; index < names.length; index++) row[names[index]!] = cells[index];
    return row;
  };

const bind = (order: readonly string[], run: Run, rows: readonly SqlRow[]): unknown[] =>
  order.map((name) => parameter(name, run, rows));

function parameter(name: string, { params, now, random, constants }: Run, rows: readonly SqlRow[]): unknown {
  switch (name) {
    case "now":
      return now;
    case "given_now":
      return params.now ?? null;
    case "random":
      return random;
    case "rows":
      return JSON.stringify(rows);
    case "dead_seqs":
      return JSON.stringify(rows.filter(isDead).map((row) => row.seq));
    case "seqs":
      return JSON.stringify(rows.map((row) => row.seq));
    case "last_seq":
      return rows.at(-1)?.seq ?? null;
    default: {
      const value = params[name] ?? constants[name] ?? null;
      return typeof value === "boolean" ? Number(value) : value;
    }
  }
}

/** It then needs no transaction around it. */
const isOneStep = ({ constants, shortcut, steps }: SqlStatement): boolean =>
  steps.length === 1 && constants === undefined && (shortcut === undefined || shortcut.length === 1);

/** Whether a statement that answers how many it changed changed so many; otherwise it is undone. */
function changesAll(
  { handle, run, begin, commit }: Opened,
  statement: SqlStatement,
  params: SqlParams,
  count: number,
): boolean {
  begin.run();
  try {
    const isAll = run(statement, params)[0]!.changed === count;
    if (isAll) commit.run();
    else rollBack(handle);
    return isAll;
  } catch (error) {
    rollBack(handle);
    throw error;
  }
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

interface Opened {
  readonly handle: SqliteHandle;
  readonly run: StepRunner;
  readonly begin: SqliteStatement;
  readonly commit: SqliteStatement;
}

/** One connection, opened at first use. A transaction has it to itself; other calls wait their turn. */
export function sqliteClient(options: SqliteClientOptions): SqlDriver {
  let opening: Promise<Opened> | undefined;
  let opened: Opened | undefined;
  let closing: Promise<void> | undefined;
  let turn: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  /** Made by the first transaction: loading what it needs takes longer than a statement. */
  let insideTransaction: AsyncLocalStorage<{ open: boolean }> | undefined;

  const open = async (): Promise<Opened> => {
    if (closing !== undefined) throw closedError();
    opening ??= openHandle(options).then(
      (handle) => {
        opened = {
          handle,
          run: stepRunner(handle),
          begin: handle.prepare("begin immediate"),
          commit: handle.prepare("commit"),
        };
        return opened;
      },
      (error) => {
        opening = undefined;
        throw error;
      },
    );
    return opening;
  };

  /** In order of arrival; nothing interleaves with what one caller does. */
  const inTurn = async <T>(work: () => Promise<T> | T, signal?: AbortSignal): Promise<T> => {
    if (insideTransaction?.getStore()?.open) {
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
      if (waiting > 1) await abortable(before, signal);
      return await work();
    } finally {
      waiting--;
      void before.then(done); // one that gave up waiting must not let the next one in early
    }
  };

  /** All of it at once: a pause between begin and commit would hold the lock for as long as others keep the thread. */
  const runSteps = (opened: Opened, statement: SqlStatement, params: SqlParams): readonly SqlRow[] => {
    const { handle, run, begin, commit } = opened;
    if (statement.whole !== undefined) {
      const count = params.count as number;
      if (changesAll(opened, statement.whole, params, count)) return new Array(count).fill(noColumns);
    }
    if (isOneStep(statement)) return run(statement, params);
    begin.run();
    try {
      const rows = run(statement, params);
      commit.run();
      return rows;
    } catch (error) {
      rollBack(handle);
      throw error;
    }
  };

  /** The common case without any waiting: the file is open, and nobody else has it. */
  const atOnce = (statement: SqlStatement, params: SqlParams): readonly SqlRow[] | undefined => {
    if (opened === undefined || waiting > 0 || closing !== undefined) return undefined;
    try {
      return runSteps(opened, statement, params);
    } catch (error) {
      if (!isBusy(error)) throw error;
      return undefined;
    }
  };

  const makeStorage = async () => {
    const { AsyncLocalStorage } = await import("node:async_hooks");
    insideTransaction ??= new AsyncLocalStorage();
    return insideTransaction;
  };

  const runTransaction = async <T>(
    { handle, run, commit }: Opened,
    storage: AsyncLocalStorage<{ open: boolean }>,
    work: (tx: SqlExecutor) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> => {
    const inside = { open: true };
    const scope = transactionScope({ query: async (statement, params) => run(statement, params) });
    const end = (): void => {
      scope.end();
      inside.open = false;
      storage.disable(); // before Node 24, one in use makes every promise of the process dearer
    };
    try {
      // Given up, it is rolled back while its work may still go on: the file has no other writer meanwhile.
      const result = await abortable(
        storage.run(inside, () => work(scope.tx)),
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
  };

  const query: SqlDriver["query"] = async (statement, params, queryOptions) => {
    const signal = queryOptions?.signal;
    signal?.throwIfAborted();
    const rows = atOnce(statement, params);
    if (rows !== undefined) return rows;
    const current = opened ?? (await open());
    return inTurn(() => whenFree(() => runSteps(current, statement, params), signal), signal);
  };

  return {
    query,
    ask(question) {
      try {
        const rows = atOnce(question, noParams);
        if (rows === undefined) return ask({ query }, question);
        return { answers: Promise.resolve(firstColumn(rows)), cancel: ignored };
      } catch (error) {
        return { answers: Promise.reject(error), cancel: ignored };
      }
    },
    async transaction<T>(work: (tx: SqlExecutor) => Promise<T>, queryOptions?: QueryOptions) {
      const signal = queryOptions?.signal;
      signal?.throwIfAborted();
      const current = await open();
      const storage = insideTransaction ?? (await makeStorage());
      return inTurn(async () => {
        await whenFree(() => current.begin.run(), signal);
        return runTransaction(current, storage, work, signal);
      }, signal);
    },
    async open() {
      await open();
    },
    close() {
      // The last in the queue: what is under way ends first.
      const last = async (): Promise<void> => {
        const current = await opening?.catch(() => undefined);
        if (current !== undefined) await inTurn(() => current.handle.close());
        opened = undefined;
      };
      closing ??= last();
      return closing;
    },
  };
}

const noParams: SqlParams = {};

/** The answer has come. */
const ignored = (): void => {};

/** How long to wait for another writer, as the recommended busy_timeout of 5 s does. */
const busyTimeoutMs = 5_000;

/**
 * Tries again while another connection has the lock. In between the thread is free: the other connection
 * may be this process's own, and could never commit while SQLite sleeps.
 */
async function whenFree<T>(work: () => T, signal?: AbortSignal): Promise<T> {
  let giveUpAt: number | undefined;
  for (let waitMs = 1; ; waitMs = Math.min(waitMs * 2, 50)) {
    signal?.throwIfAborted();
    try {
      return work();
    } catch (error) {
      giveUpAt ??= performance.now() + busyTimeoutMs;
      if (!isBusy(error) || performance.now() > giveUpAt) throw error;
    }
    await sleep(waitMs * (0.5 + Math.random()));
  }
}

/** SQLITE_BUSY and SQLITE_LOCKED with their extended codes, whichever way the binding names them. */
export function isBusy(error: unknown): boolean {
  const { errcode, code, message } = (error ?? {}) as { errcode?: number; code?: string; message?: string };
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
  const builtIn = process.getBuiltinModule?.("node:sqlite") as SqliteModule | undefined;
  if (builtIn !== undefined) return builtIn.DatabaseSync;
  try {
    return ((await import("@photostructure/sqlite")) as unknown as SqliteModule).DatabaseSync;
  } catch (error) {
    throw new DriverMissingError("@photostructure/sqlite", "SQLite on Node before 22.13", error);
  }
}
