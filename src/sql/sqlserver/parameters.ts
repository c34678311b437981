import type { SqlParams, SqlValue } from "../driver.js";

/** Passes over names in brackets, literals and comments, so that a table called [a@b] stays what it is. */
const tokens = /\[(?:[^\]]|\]\])*\]|'(?:[^']|'')*'|--[^\n]*|@@\w+|@([a-z_][a-z0-9_]*)/gi;

/** Those of the given parameters that the text uses: the server refuses to be given others. */
export function usedParameters(text: string, params: SqlParams): readonly string[] {
  const names = new Set<string>();
  for (const match of text.matchAll(tokens)) {
    if (match[1] !== undefined && Object.hasOwn(params, match[1])) names.add(match[1]);
  }
  return [...names];
}

export type ParameterKind = "nvarchar(max)" | "bigint" | "float" | "bit" | "varbinary(max)";

/** The same type for every value of a kind, long or short: the server keeps a plan for each list of types. */
export function parameterKind(value: SqlValue): ParameterKind {
  if (typeof value === "number") return Number.isSafeInteger(value) ? "bigint" : "float";
  if (typeof value === "boolean") return "bit";
  return value instanceof Uint8Array ? "varbinary(max)" : "nvarchar(max)";
}

/** As mssql wants it: bytes as a Buffer. */
export const parameterValue = (value: SqlValue): SqlValue | Buffer =>
  value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
