import { abortable, sleep } from "../../base/async.js";
import { InvalidOperationError } from "../../errors.js";
import { endedError, type Fault, isTrue, type SqlParams, type SqlRow, type SqlStatement } from "../driver.js";
import { keywordsOf, toAnonymous } from "../named-parameters.js";

/** The part of `node:sqlite`'s API that is used; `@photostructure/sqlite` and better-sqlite3 have it too. */
export interface PreparedText {
  all(...params: unknown[]): unknown[];
  run(...params: unknown[]): unknown;
  setReturnArrays?(enabled: boolean): void;
  columns?(): { readonly name: string }[];
  setReadBigInts?(enabled: boolean): unknown;
  safeIntegers?(enabled: boolean): unknown;
}

interface SqliteConnection {
  prepare(text: string): PreparedText;
}

/** What a connection says of its transaction; node:sqlite, @photostructure/sqlite and better-sqlite3 do. */
export interface SqliteTransactionConnection extends SqliteConnection {
  readonly isTransaction?: boolean;
  readonly inTransaction?: boolean;
}

/** SQLite ends a transaction by itself on some errors. What runs after it would be committed on its own. */
export function requireOpen({ isTransaction, inTransaction }: SqliteTransactionConnection): void {
  if (isTransaction === false || inTransaction === false) throw endedError();
}

export type RunStatement = (statement: SqlStatement, params: SqlParams) => readonly SqlRow[];

type RunValues = (values: readonly unknown[]) => readonly SqlRow[];

/** Runs statements on one connection, in whatever transaction is open on it. Keeps their texts prepared. */
export function statementsOn(connection: SqliteConnection): RunStatement {
  const kept = new Map<string, RunValues>();
  const prepare = ({ text, returnsRows, isReusable }: BoundText): RunValues => {
    let prepared = kept.get(text);
    if (prepared === undefined) {
      prepared = runner(withNumbers(connection.prepare(text)), returnsRows);
      if (isReusable) kept.set(text, prepared);
    }
    return prepared;
  };
  return (statement, params) => runSteps(statement, params, (bound) => prepare(bound)(bound.values));
}

/** A caller's connection may return integers as BigInts, by node:sqlite's setting or by better-sqlite3's. */
function withNumbers(prepared: PreparedText): PreparedText {
  prepared.setReadBigInts?.(false);
  prepared.safeIntegers?.(false);
  return prepared;
}

function runner(prepared: PreparedText, returnsRows: boolean): RunValues {
  if (!returnsRows) {
    return (values) => {
      prepared.run(...values);
      return noRows;
    };
  }
  const names = arrayColumns(prepared);
  if (names === undefined) return (values) => prepared.all(...values) as SqlRow[];
  const Row = rowClass(names);
  return (values) => (prepared.all(...values) as unknown[][]).map((cells) => new Row(cells));
}

const noRows: readonly SqlRow[] = [];

/**
 * Makes the binding return rows as arrays, where it can, and returns the names of the columns. To set each property from
 * C++ takes longer: a drain was a sixth slower with objects.
 */
function arrayColumns(prepared: PreparedText): readonly string[] | undefined {
  if (prepared.setReturnArrays === undefined || prepared.columns === undefined) return undefined;
  prepared.setReturnArrays(true);
  return prepared.columns().map((column) => column.name);
}

/** A class for each statement: V8 learns how many columns its rows have, and makes room for them at once. */
function rowClass(names: readonly string[]) {
  return class Row {
    [column: string]: unknown;

    constructor(cells: readonly unknown[]) {
      for (let index = 0; index < names.length; index++) this[names[index]!] = cells[index];
    }
  };
}

type RunAlone = <T>(work: () => Promise<T> | T, signal?: AbortSignal) => Promise<T>;

/** Runs one piece of work at a time, in the order of the calls. */
export function oneAtATime(): RunAlone {
  let last: Promise<void> = Promise.resolve();
  let running = 0;
  return async (work, signal) => {
    const before = last;
    let done = (): void => {};
    last = new Promise((resolve) => {
      done = resolve;
    });
    running++;
    try {
      if (running > 1) await abortable(before, signal);
      return await work();
    } finally {
      running--;
      // A call that was aborted while it waited must not let the next one in before its predecessor has ended.
      void before.then(done);
    }
  };
}

/**
 * A statement of several texts, which run in order in one transaction: SQLite has no procedures and no
 * data-modifying CTEs. See docs/decisions/0004. Beside the caller's parameters, a step may use:
 * - `:now`: the database's clock in milliseconds, read once for all steps, or the time that a test passes
 * - `:rows`: the rows that the last step with rows returned, as a JSON array of objects
 * - `:seqs`: their `seq` columns, as a JSON array; where they are one row with `seqs`, that
 */
export interface SteppedStatement extends SqlStatement {
  readonly steps: readonly Step[];
}

export interface Step {
  readonly text: string;
  /** It runs only when this column is true in one of the rows that the last step with rows returned. */
  readonly onlyIf?: string;
}

export const onlyIf = (column: string, text: string): Step => ({ text, onlyIf: column });

/** Its texts are made at the first use: an app uses few of the statements. */
export function steps(name: string, make: () => string | readonly (string | Step)[]): SteppedStatement {
  let made: readonly Step[] | undefined;
  return {
    name,
    get text() {
      return this.steps.map(({ text }) => text).join(";\n");
    },
    get steps() {
      made ??= [make()].flat().map((step) => (typeof step === "string" ? { text: step } : step));
      return made;
    },
  };
}

const stepsIn = (statement: SqlStatement): readonly Step[] =>
  (statement as Partial<SteppedStatement>).steps ?? [{ text: statement.text }];

/** A single text is a transaction by itself. */
export const needsTransaction = (statement: SqlStatement): boolean => stepsIn(statement).length > 1;

const readClock = "select cast(round(unixepoch('subsec') * 1000) as integer) as now";

/** One text with `?` for its values, to be run on a connection. */
interface BoundText {
  readonly text: string;
  readonly values: readonly unknown[];
  /** Otherwise it only writes. */
  readonly returnsRows: boolean;
  /** The connection may keep it prepared. */
  readonly isReusable: boolean;
}

type Rows = readonly SqlRow[];
type Steps = Generator<BoundText, Rows, Rows>;

/** Runs a statement on a connection that returns at once. */
function runSteps(statement: SqlStatement, params: SqlParams, run: (bound: BoundText) => Rows): Rows {
  const running = stepsOf(statement, params);
  let next = running.next();
  while (!next.done) next = running.next(run(next.value));
  return next.value;
}

/** Runs a statement on a connection that returns promises. */
export async function runStepsAsync(
  statement: SqlStatement,
  params: SqlParams,
  run: (bound: BoundText) => Promise<Rows>,
): Promise<Rows> {
  const running = stepsOf(statement, params);
  let next = running.next();
  while (!next.done) next = running.next(await run(next.value));
  return next.value;
}

/** Yields the texts to run, one after the other, and gets the rows of each. Returns the last rows. */
function* stepsOf(statement: SqlStatement, params: SqlParams): Steps {
  const isReusable = statement.unprepared !== true;
  const isStepped = "steps" in statement;
  let now = params.now ?? null;
  let rows: Rows = [];
  for (const { text, order, returnsRows, onlyIf } of compiled(statement)) {
    if (onlyIf !== undefined && !rows.some((row) => isTrue(row[onlyIf]))) continue;
    if (isStepped && now === null && order.includes("now")) {
      const [row] = yield { text: readClock, values: [], returnsRows: true, isReusable: true };
      now = row!.now as number;
    }
    const provided = isStepped ? { now, rows } : undefined;
    const values = order.map((name) => boundValue(name, params, provided));
    const returned = yield { text, values, returnsRows, isReusable };
    if (returnsRows) rows = returned;
  }
  return rows;
}

interface Provided {
  readonly now: unknown;
  readonly rows: Rows;
}

function boundValue(name: string, params: SqlParams, provided: Provided | undefined): unknown {
  if (provided !== undefined) {
    if (name === "now") return provided.now;
    if (name === "rows") return JSON.stringify(provided.rows);
    if (name === "seqs") return provided.rows[0]?.seqs ?? JSON.stringify(provided.rows.map((row) => row.seq));
  }
  const value = params[name] ?? null;
  return typeof value === "boolean" ? Number(value) : value;
}

interface CompiledStep extends Step {
  readonly order: readonly string[];
  readonly returnsRows: boolean;
}

const compiledSteps = new WeakMap<SqlStatement, readonly CompiledStep[]>();

function compiled(statement: SqlStatement): readonly CompiledStep[] {
  let made = compiledSteps.get(statement);
  if (made === undefined) {
    made = stepsIn(statement).map((step) => ({
      ...step,
      ...toAnonymous(step.text),
      returnsRows: returnsRows(step.text),
    }));
    compiledSteps.set(statement, made);
  }
  return made;
}

function returnsRows(text: string): boolean {
  const keywords = keywordsOf(text);
  if (/\breturning\b|^\s*(select|values|pragma|explain)\b/i.test(keywords)) return true;
  return /^\s*with\b/i.test(keywords) && !/\b(insert|update|delete)\b/i.test(keywords);
}

/** The codes of SQLITE_BUSY and SQLITE_LOCKED: another connection has the lock. */
const busyCodes = [5, 6];

/** The codes of SQLITE_CORRUPT and SQLITE_NOTADB. */
const damagedCodes = [11, 26];

/** Bindings report the code as a number (`errcode`, with extended codes above the low byte), as a name, or in the message. */
function hasCode(error: unknown, codes: readonly number[], name: RegExp, words: RegExp): boolean {
  const { errcode, code, message } = (error ?? {}) as { errcode?: number; code?: string; message?: string };
  return (
    (errcode !== undefined && codes.includes(errcode & 0xff)) ||
    name.test(code ?? "") ||
    words.test(message ?? "")
  );
}

export const isBusy = (error: unknown): boolean =>
  hasCode(error, busyCodes, /^SQLITE_(BUSY|LOCKED)/, /database (table )?is locked/);

/** Bytes of the file are not what SQLite wrote. */
export const isDamaged = (error: unknown): boolean =>
  hasCode(
    error,
    damagedCodes,
    /^SQLITE_(CORRUPT|NOTADB)/,
    /^(database disk image is malformed|file is not a database)/,
  );

export const damagedError = (file: string, detail: string, cause?: unknown): InvalidOperationError =>
  new InvalidOperationError(
    `The SQLite file ${file} is damaged: ${detail}. Stop the processes that use it, and restore it from a back-up: oncebox restore --from BACKUP --to ${file} --force`,
    { cause },
  );

export const classify = (error: unknown): Fault => (isBusy(error) ? "rolledBack" : "permanent");

export const isSchemaMissing = (error: unknown): boolean =>
  /no such (table|column)/.test((error as Error | undefined)?.message ?? "");

export const isNameTaken = (error: unknown): boolean =>
  /already exists|there is already an? \w+ named|use DROP \w+ to delete/.test(
    (error as Error | undefined)?.message ?? "",
  );

/** How long to wait for another writer. SQLite's documentation recommends a busy_timeout of 5 s. */
const busyTimeoutMs = 5_000;
const longestBusyWaitMs = 50;

/**
 * Tries again while another connection has the lock. SQLite's own `busy_timeout` would block the thread, and the other
 * connection may need that thread to commit.
 */
export async function whenFree<T>(work: () => T, signal?: AbortSignal): Promise<T> {
  let giveUpAt: number | undefined;
  for (let waitMs = 1; ; waitMs = Math.min(waitMs * 2, longestBusyWaitMs)) {
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
