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

export interface SqliteConnection {
  prepare(text: string): PreparedText;
}

export type RunStatement = (statement: SqlStatement, params: SqlParams) => readonly SqlRow[];

/** Runs statements on one connection, in whatever transaction is open on it. Keeps their texts prepared. */
export function statementsOn(connection: SqliteConnection): RunStatement {
  const kept = new Map<string, PreparedText>();
  const prepare = ({ text, isReusable }: BoundText): PreparedText => {
    let prepared = kept.get(text);
    if (prepared === undefined) {
      prepared = withNumbers(connection.prepare(text));
      if (isReusable) kept.set(text, prepared);
    }
    return prepared;
  };
  const run = (bound: BoundText): readonly SqlRow[] => {
    const prepared = prepare(bound);
    if (bound.returnsRows) return prepared.all(...bound.values) as SqlRow[];
    prepared.run(...bound.values);
    return noRows;
  };
  return (statement, params) => runSteps(statement, params, run);
}

const noRows: readonly SqlRow[] = [];

/** A caller's connection may return integers as BigInts, by node:sqlite's setting or by better-sqlite3's. */
function withNumbers(prepared: PreparedText): PreparedText {
  prepared.setReadBigInts?.(false);
  prepared.safeIntegers?.(false);
  return prepared;
}
