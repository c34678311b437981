import { sleep } from "../../base/async.js";
import { InvalidOperationError } from "../../errors.js";
import type { Fault } from "../driver.js";

/** The error when the lock of a partition key cannot be had: sp_getapplock returns a number instead of raising 1205 or 1222. */
export const deadlockedKeys = 51205;

const lockTimeout = 1222;

/** The server refused the work or undid it. */
const rolledBack = new Set([
  601, // a read without locks met rows that moved
  701, // not enough memory for the statement
  1204, // no lock resources left
  1205, // deadlock victim
  lockTimeout,
  2601, // duplicate key in a unique index: another call inserted the key meanwhile, and a repeated call finds it
  2627, // the same in a constraint
  3960, // snapshot isolation: another transaction changed the row
  4060, // the database cannot be opened: in Azure while it moves to another node, and wherever its name is misspelt
  7105, // a read without locks met a long text that was being written, and the connection ended
  8645, // timeout while waiting for memory
  deadlockedKeys, // our own: a deadlock on a partition key
]);

/** The server moves, or is too busy: it wants seconds before the next attempt. Nothing was done. */
const unavailable = new Set([
  921, // the database has not been recovered yet
  976, // the replica does not take connections
  983, // the replica changes its role
  3906, // the database is read-only: this was the primary until a fail-over
  4221, // the readable secondary is not ready for logins
  10060, // timeout while connecting
  10928, // Azure: resource limit reached
  10929, // Azure: too busy for more than the guaranteed minimum
  10936, // Azure: resource limit of an elastic pool reached
  18401, // the server upgrades itself
  40501, // Azure: the service is busy
  40613, // Azure: the database is not available
  42108, // Azure: the SQL pool is paused
  42109, // Azure: the SQL pool is warming up
  49918, // Azure: not enough resources for the request
  49919, // Azure: too many create or update operations
  49920, // Azure: too many operations in the subscription
]);

/** The session ended while the statement ran. It may have been committed. */
const connectionLost = new Set([
  64, // the network name is no longer available
  121, // the semaphore timeout period has expired
  233, // no process on the other end
  596, // the session was killed
  6005, // the server is shutting down
  10053, // the connection was aborted
  10054, // the connection was reset
  40197, // Azure: the service failed while processing, as in a failover
]);
const lostCodes = new Set(["ESOCKET", "ECLOSE", "ECONNCLOSED", "ECONNRESET", "EPIPE", "EINVALIDSTATE"]);

/** The properties of what mssql and tedious throw that tell faults apart. */
interface MssqlFault {
  readonly name?: string;
  readonly code?: unknown;
  readonly number?: unknown;
  readonly message?: string;
  /** Of a failed login: pool.ts writes the server's number into it. */
  readonly originalError?: { readonly isTransient?: boolean; readonly number?: unknown };
  /** One statement may report several errors; mssql throws the last and keeps the others here. */
  readonly precedingErrors?: readonly { readonly number?: unknown }[];
}

const numbersOf = (error: MssqlFault): readonly number[] =>
  [error, error.originalError, ...(error.precedingErrors ?? [])]
    .map((one) => one?.number)
    .filter((number) => typeof number === "number");

/** Nothing was sent, and the next attempt may connect: the server is starting, moving or out of reach. A wrong password stays wrong. */
const neverConnected = ({ name, code, message = "", originalError }: MssqlFault): boolean =>
  name === "ConnectionError" &&
  (originalError?.isTransient === true ||
    code === "ETIMEOUT" ||
    code === "EINSTLOOKUP" ||
    (code === "ESOCKET" && /^(Failed to connect|Could not connect)\b/.test(message)));

export function classify(error: unknown): Fault {
  const fault = (error ?? {}) as MssqlFault;
  const numbers = numbersOf(fault);
  const isLogin = fault.name === "ConnectionError";
  if (numbers.some((number) => connectionLost.has(number))) return isLogin ? "rolledBack" : "unknown";
  if (numbers.some((number) => unavailable.has(number))) return "unavailable";
  if (numbers.some((number) => rolledBack.has(number))) return "rolledBack";
  if (neverConnected(fault)) return "rolledBack";
  // mssql drops the code of a socket error during a request; the text remains.
  const isLost = lostCodes.has(String(fault.code)) || /^Connection lost\b/.test(fault.message ?? "");
  // A request timeout is permanent: the repeated request would wait as long again.
  return isLost ? "unknown" : "permanent";
}

/** At login: 40613 while a serverless database resumes or a database moves, 42109 while a SQL pool warms up. */
const resumingErrors = new Set([40613, 42109]);

function isResuming(error: unknown): boolean {
  const fault = (error ?? {}) as MssqlFault;
  return fault.name === "ConnectionError" && numbersOf(fault).some((number) => resumingErrors.has(number));
}

/** Whether an error has one of the numbers. Babelfish has one number for all errors that it does not map: there the text decides. */
const isOneOf = (numbers: readonly number[], unmappedText: RegExp) => (error: unknown) => {
  const fault = (error ?? {}) as MssqlFault;
  const found = numbersOf(fault);
  if (found.some((number) => numbers.includes(number))) return true;
  return found.includes(unmapped) && unmappedText.test(fault.message ?? "");
};
const unmapped = 33557097;

/** Missing: 208 an object, 2812 a procedure, 207 a column. A procedure takes other parameters: 201, 8144, 8145. */
export const isSchemaMissing = isOneOf([201, 207, 208, 2812, 8144, 8145], /does not exist/);

/** 229 on an object, 230 on a column. */
export const isDenied = isOneOf([229, 230], /^permission denied/);

/** A read waited for an open transaction. */
export const isLockTimeout = (error: unknown): boolean =>
  numbersOf((error ?? {}) as MssqlFault).includes(lockTimeout);

/** 2714 an object, 1913 an index; 2010, 3705: the name belongs to another kind of object. */
export const isNameTaken = isOneOf([1913, 2010, 2714, 3705], /already exists/);

export type Wait = (ms: number, signal?: AbortSignal) => Promise<void>;

const firstResumeWaitMs = 250;
const longestResumeWaitMs = 5_000;
/** A serverless database of Azure SQL resumes in up to a minute. */
const longestResumeMs = 90_000;

/**
 * Repeats work that needs a login while the database resumes from its pause. The login starts the resume, and fails; nothing
 * has been sent then. The call's signal ends the wait before its limit does.
 */
export async function whenResumed<T>(
  work: () => Promise<T>,
  signal: AbortSignal | undefined,
  wait: Wait = sleep,
): Promise<T> {
  let waitMs = firstResumeWaitMs;
  for (let waitedMs = 0; ; waitedMs += waitMs, waitMs = Math.min(2 * waitMs, longestResumeWaitMs)) {
    try {
      return await work();
    } catch (error) {
      if (!isResuming(error)) throw error;
      if (waitedMs >= longestResumeMs) throw notResumed(error);
    }
    await wait(waitMs, signal);
  }
}

const notResumed = (cause: unknown) =>
  new InvalidOperationError(
    `The database was not available for ${longestResumeMs / 1000} seconds of waiting. It may be paused and not resume, or be moving to another node.`,
    { cause },
  );
