import { abortable } from "../../base/timers.js";
import { endedError } from "../connections.js";
import type { SqlParams, SqlRow, SqlStatement } from "../driver.js";
import { type BoundText, runSteps } from "./steps.js";

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
  return (values) => (prepared.all(...values) as unknown[][]).map((cells) => namedRow(names, cells));
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

function namedRow(names: readonly string[], cells: readonly unknown[]): SqlRow {
  const row: Record<string, unknown> = {};
  for (let index = 0; index < names.length; index++) row[names[index]!] = cells[index];
  return row;
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
