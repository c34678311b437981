import type { ReceivingDialect } from "../dialect.js";
import type { Fault } from "../transient-retry.js";
import { names } from "./names.js";
import { receiveStatements } from "./receive-statements.js";

/** Serialization failure, deadlock, lock not available, too many connections, server starting or out of reach. */
const rolledBack = new Set([
  "40001",
  "40P01",
  "55P03",
  "53300",
  "57P03",
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
]);
/** The session ended under the statement. */
const connectionLost = new Set(["57P01", "57P02", "57P05", "ECONNRESET", "EPIPE", "ETIMEDOUT"]);

function classify(error: unknown): Fault {
  const fault = (error ?? {}) as { code?: unknown; message?: string };
  const code = String(fault.code ?? ""); // a number in what fetch throws, which a password's function may call
  const message = fault.message ?? "";
  // no connection was to be had, so nothing was sent
  const notConnected = /timeout exceeded when trying to connect|due to connection timeout/.test(message);
  if (rolledBack.has(code) || notConnected) return "rolledBack";
  const lost = connectionLost.has(code) || code.startsWith("08") || /Connection terminated/.test(message);
  return lost ? "unknown" : "permanent";
}

export const postgresReceiving: ReceivingDialect = {
  name: "postgres",
  embedded: false,
  defaults: { schema: "infra", inbox: "inbox", outbox: "outbox" },
  names,
  receiving: receiveStatements,
  toTime: (date) => date.toISOString(),
  classify,
  isSchemaMissing: (error) =>
    ["42P01", "3F000", "42703", "42883"].includes((error as { code?: string })?.code ?? ""),
};
