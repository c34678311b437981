// @ts-expect-error: older types of Node lack it
import type { DatabaseSync } from "node:sqlite";
import type { Transaction } from "mssql";
import type { PoolClient } from "pg";

/** The databases that a store can be on. */
export type DatabaseKind = "postgres" | "sqlserver" | "sqlite";

/** A kind that is known, or any. */
export type AnyDatabase = DatabaseKind | "any";

/** What each driver runs a transaction on. It is unknown where the driver's types are not installed. */
export interface NativeTransactions {
  /** pg's client. */
  readonly postgres: IfInstalled<PoolClient>;
  /** mssql's transaction. */
  readonly sqlserver: IfInstalled<Transaction>;
  /** node:sqlite's connection, or that of `@photostructure/sqlite`, which has the same API. */
  readonly sqlite: IfInstalled<DatabaseSync, SqliteConnection>;
  /** One of them: it is not known which. */
  readonly any: unknown;
}

/** The types of a package that is not installed are `any`. */
type IfInstalled<Type, Otherwise = unknown> = [0] extends [1 & Type] ? Otherwise : Type;

/** What Node's older types do not have. */
interface SqliteConnection {
  exec(text: string): void;
  prepare(text: string): SqliteStatement;
}

interface SqliteStatement {
  all(...values: readonly SqliteValue[]): unknown[];
  get(...values: readonly SqliteValue[]): unknown;
  run(...values: readonly SqliteValue[]): {
    readonly changes: number | bigint;
    readonly lastInsertRowid: number | bigint;
  };
}

type SqliteValue = null | number | bigint | string | Uint8Array;
