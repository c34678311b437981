import type { ReceivingDialect } from "../dialect.js";
import type { Fault } from "../transient-retry.js";
import { names } from "./names.js";
import { receiveStatements } from "./receive-statements.js";

/** The server refused or undid the work. */
const rolledBack = new Set([
  1204, // no lock resources left
  1205, // deadlock victim
  1222, // lock timeout
  2601, // duplicate key: another call inserted the same key in between,
  2627, //   and the repeated call will find it
  3960, // snapshot isolation: the row was changed by another
  4060, // the database cannot be opened: in Azure, while it moves
  4221, // the readable secondary is not ready for logins
  8645, // no memory for the query in time
  10060, // no answer to the attempt to connect
  10928, // Azure: resource limit reached
  10929, // Azure: too busy for more than the guaranteed minimum
  40501, // Azure: the service is busy
  40613, // Azure: the database is not available
  49918, // Azure: not enough resources for the request,
  49919, //   too many operations
  49920, //   too many operations for the subscription
]);

/** The session ended under the statement: whether it was committed nobody knows. */
const connectionLost = new Set([
  64, // the network name is no longer available
  121, // the semaphore timeout period has expired
  233, // no process on the other end
  596, // the session was killed
  6005, // the server is shutting down
  10053, // the connection was aborted,
  10054, //   was reset
  40197, // Azure: an error while processing; it fails over like this
]);
const lostCodes = new Set(["ESOCKET", "ECLOSE", "ECONNCLOSED", "ECONNRESET", "EPIPE", "EINVALIDSTATE"]);

/** What mssql and tedious throw, as far as it tells one fault from another. */
interface MssqlFault {
  readonly name?: string;
  readonly code?: unknown;
  readonly number?: unknown;
  readonly message?: string;
  readonly originalError?: { readonly isTransient?: boolean };
  /** One statement may report several errors; mssql throws the last and keeps the others here. */
  readonly precedingErrors?: readonly { readonly number?: unknown }[];
}

const numbersOf = (error: MssqlFault): readonly number[] =>
  [error, ...(error.precedingErrors ?? [])]
    .map((one) => one.number)
    .filter((number) => typeof number === "number");

function classify(error: unknown): Fault {
  const fault = (error ?? {}) as MssqlFault;
  const numbers = numbersOf(fault);
  if (numbers.some((number) => connectionLost.has(number))) return "unknown";
  if (numbers.some((number) => rolledBack.has(number))) return "rolledBack";
  if (neverConnected(fault)) return "rolledBack";
  // mssql drops the code of a socket error that comes while a request runs; its text remains
  const lost = lostCodes.has(String(fault.code)) || /^Connection lost\b/.test(fault.message ?? "");
  // A request that ran into its timeout is not here: it would wait as long again.
  return lost ? "unknown" : "permanent";
}

/** A wrong password stays wrong; a server that is starting, moving or out of reach may come. */
const neverConnected = ({ name, code, message = "", originalError }: MssqlFault): boolean =>
  name === "ConnectionError" &&
  (originalError?.isTransient === true ||
    code === "ETIMEOUT" ||
    code === "EINSTLOOKUP" ||
    (code === "ESOCKET" && /^(Failed to connect|Could not connect)\b/.test(message)));

/**
 * 208 an object, 2812 a procedure, 207 a column is missing; 201, 8144 and 8145 a procedure takes
 * other parameters. Babelfish has one number for all that it has no other for.
 */
const schemaErrors = new Set([201, 207, 208, 2812, 8144, 8145]);
const unmapped = 33557097;

function isSchemaMissing(error: unknown): boolean {
  const fault = (error ?? {}) as MssqlFault;
  const numbers = numbersOf(fault);
  if (numbers.some((number) => schemaErrors.has(number))) return true;
  return numbers.includes(unmapped) && /does not exist/.test(fault.message ?? "");
}

export const sqlServerReceiving: ReceivingDialect = {
  name: "sqlserver",
  embedded: false,
  defaults: { schema: "infra", inbox: "Inbox", outbox: "Outbox" },
  names,
  receiving: receiveStatements,
  // datetime2 has no zone: every time in the tables is UTC
  toTime: (date) => date.toISOString().slice(0, -1),
  classify,
  isSchemaMissing,
};
