import { InvalidOperationError } from "../../errors.js";
import type { Fault } from "../driver.js";

/** The server refused the work, undid it, or was never reached. */
const rolledBack = new Set([
  "40001", // serialization failure
  "40P01", // deadlock
  "55P03", // lock not available
  "53300", // too many connections
  "57P03", // the server is starting
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ONCEBOX_ENTRA_TOKEN",
]);
/** The session ended while the statement ran. Class 08 is that too. */
const connectionLost = new Set(["57P01", "57P02", "57P05", "ECONNRESET", "EPIPE", "ETIMEDOUT"]);

/** The pool had no connection to give, so nothing was sent. */
const notConnected = /timeout exceeded when trying to connect|due to connection timeout/;

export function classify(error: unknown): Fault {
  const fault = (error ?? {}) as { code?: unknown; message?: string };
  // A number in a DOMException, which `fetch` throws where a password comes from a function that calls it.
  const code = String(fault.code ?? "");
  const message = fault.message ?? "";
  if (rolledBack.has(code) || notConnected.test(message)) return "rolledBack";
  const isLost = connectionLost.has(code) || code.startsWith("08") || /Connection terminated/.test(message);
  return isLost ? "unknown" : "permanent";
}

/** A missing table, schema, column or function. */
const schemaErrors = ["42P01", "3F000", "42703", "42883"];

export const isSchemaMissing = (error: unknown): boolean =>
  schemaErrors.includes((error as { code?: string })?.code ?? "");

export const isDenied = (error: unknown): boolean => (error as { code?: string })?.code === "42501";

/** 42P07 a table or index, 42710 a trigger, 42723 a function; 42809 and 42P16: the view that would be replaced is not ours. */
const takenErrors = ["42P07", "42710", "42723", "42809", "42P16"];

export const isNameTaken = (error: unknown): boolean =>
  takenErrors.includes((error as { code?: string })?.code ?? "");

/** The connection is closed or about to be, so the pool must not lend it again. */
export function isConnectionError(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  return /^(08|57P|E[A-Z]{3,})/.test(code) || /Connection terminated|not queryable/.test(message);
}

/** Deletes the detail ("Failing row contains (…)"), which would bring a payload into a caller's log. */
export function withoutDetail(error: unknown): unknown {
  if (error instanceof Error && "detail" in error) delete error.detail;
  return error;
}

/** 26000: no prepared statement of that name in this session; 42P05: there is one, of another connection. */
const preparedElsewhere = ["26000", "42P05"];

/** Says what to do where a pooler runs a prepared statement in another session than the one that has it. */
export const explained = (error: unknown): unknown =>
  preparedElsewhere.includes((error as { code?: string })?.code ?? "")
    ? new InvalidOperationError(
        `A pooler shares the sessions of PostgreSQL between transactions, and does not keep prepared statements (${(error as Error).message}). Nothing was done. Add ?prepare=false to the URL, or connect to the server itself.`,
        { cause: error },
      )
    : error;
