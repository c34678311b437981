import type { SqlValue } from "../driver.js";

export type ParameterKind = "nvarchar(max)" | "bigint" | "float" | "bit" | "varbinary(max)";

/** The same type for every value of a kind, long or short: the server keeps a plan for each list of types. */
export function parameterKind(value: SqlValue): ParameterKind {
  if (typeof value === "number") return Number.isSafeInteger(value) ? "bigint" : "float";
  if (typeof value === "boolean") return "bit";
  return value instanceof Uint8Array ? "varbinary(max)" : "nvarchar(max)";
}

/** Drivers take bytes as a Buffer only. */
export const parameterValue = (value: SqlValue): SqlValue | Buffer =>
  value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
