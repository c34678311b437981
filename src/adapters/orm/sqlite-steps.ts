import type { SqlParams, SqlRow, SqlStatement } from "../../sql/driver.js";
import { toAnonymous } from "../../sql/named-parameters.js";

/** Runs one text with `?` for its values. */
export type RunText = (text: string, values: readonly unknown[]) => Promise<readonly SqlRow[]>;

/** The database's clock in milliseconds. */
const clock = "select cast(round(unixepoch('subsec') * 1000) as integer) as now";

/**
 * A SQLite statement's steps through a library that answers by promises: each may read what the one before it
 * answered. The transaction is the caller's, so what a statement has for speed alone is left out.
 */
export async function runSteps(
  run: RunText,
  statement: SqlStatement,
  params: SqlParams,
): Promise<readonly SqlRow[]> {
  const now = params.now ?? (await run(clock, []))[0]?.now;
  const random = Math.random();
  let constants: SqlRow = {};
  let rows: readonly SqlRow[] = [];
  const valueNamed = (name: string): unknown => {
    if (name === "now") return now;
    if (name === "given_now") return params.now ?? null;
    if (name === "random") return random;
    if (name === "rows") return JSON.stringify(rows);
    if (name === "seqs") return JSON.stringify(rows.map((row) => row.seq));
    if (name === "last_seq") return rows.at(-1)?.seq ?? null;
    const value = params[name] ?? constants[name] ?? null;
    return typeof value === "boolean" ? Number(value) : value;
  };
  const execute = async (text: string): Promise<readonly SqlRow[]> => {
    const { text: anonymous, order } = toAnonymous(text);
    return (await run(anonymous, order.map(valueNamed))).map((row) => ({ ...constants, ...row }));
  };
  if (statement.constants !== undefined) constants = (await execute(statement.constants))[0] ?? {};
  for (const step of statement.steps) {
    const answered = await execute(step);
    if (answersRows(step)) rows = answered;
  }
  return rows;
}

const answersRows = (text: string): boolean =>
  /^\s*(select|with|pragma)\b|\breturning\b/i.test(text.replace(/"(?:[^"]|"")*"/g, '""'));
