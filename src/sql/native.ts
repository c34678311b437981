// @ts-expect-error: older types of Node lack it
import type { DatabaseSync } from "node:sqlite";
import type { Transaction } from "mssql";
import type { PoolClient } from "pg";

/** The databases that a store can be on. */
export type DatabaseKind = "postgres" | "sqlserver" | "sqlite";

/** A kind that is known, or any. */
export type AnyDatabase = DatabaseKind | "any";

/** What each driver runs a transaction on. A type is `any` where its package is not installed. */
export interface NativeTransactions {
  /** pg's client. */
  readonly postgres: PoolClient;
  /** mssql's transaction. */
  readonly sqlserver: Transaction;
  /** node:sqlite's connection, or that of `@photostructure/sqlite`, which has the same API. */
  readonly sqlite: DatabaseSync;
  /** One of them: it is not known which. */
  readonly any: unknown;
}
