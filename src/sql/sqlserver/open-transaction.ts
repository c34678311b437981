import type { SqlStatement } from "../driver.js";

/** Error numbers from 50000 are free for applications. */
const endedNumber = 50_266;

/**
 * A text that fails when no transaction is open. SQL Server ends one by itself after a deadlock, or an error under XACT_ABORT.
 * Libraries do not notice, and what they send afterwards is committed on its own.
 */
export const whileOpenText = (text: string): string =>
  `if @@trancount = 0 throw ${endedNumber}, N'The transaction has ended.', 1;\n${text}`;

/** Batches of their own, as DDL is, must begin with their own first word; only migrations send them. */
export const whileOpen = (statement: SqlStatement): SqlStatement =>
  statement.unprepared ? statement : { ...statement, text: whileOpenText(statement.text) };

/** The text above has failed, or mssql itself knows of no open transaction. */
export function isEnded(error: unknown): boolean {
  const { number, code } = (error ?? {}) as { readonly number?: unknown; readonly code?: unknown };
  return number === endedNumber || code === "ENOTBEGUN" || code === "EABORT";
}
