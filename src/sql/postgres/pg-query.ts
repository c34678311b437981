import { createHash } from "node:crypto";
import type { SqlParams, SqlRow, SqlStatement, SqlValue } from "../driver.js";
import { toPositional } from "../named-parameters.js";
import { withoutDetail } from "./faults.js";

/** What a pg Client, PoolClient or Pool has; a caller's own transaction comes as one of them. */
export interface PgQueryable {
  query(config: { text: string; values: unknown[]; name?: string }): Promise<{ rows: unknown[] }>;
}

interface Compiled {
  readonly text: string;
  /** The parameters' names in the order of `$1`, `$2`, … */
  readonly order: readonly string[];
  /** Of the prepared statement: a digest, because two queues have statements of the same name with different texts. */
  readonly name: string;
}

const compiled = new WeakMap<SqlStatement, Compiled>();

function compile(statement: SqlStatement): Compiled {
  let entry = compiled.get(statement);
  if (entry === undefined) {
    const positional = toPositional(statement.steps[0]!);
    const digest = createHash("sha256").update(positional.text).digest("hex").slice(0, 16);
    entry = { ...positional, name: `oncebox_${digest}` };
    compiled.set(statement, entry);
  }
  return entry;
}

const toPg = (value: SqlValue | undefined): unknown =>
  value instanceof Uint8Array
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : (value ?? null);

/** `prepare` is for connections of our own: a caller's connection may go through a pooler that keeps no prepared statements. */
export async function pgQuery(
  on: PgQueryable,
  statement: SqlStatement,
  params: SqlParams,
  { prepare = false }: { readonly prepare?: boolean } = {},
): Promise<readonly SqlRow[]> {
  const { text, order, name } = compile(statement);
  const values = order.map((parameter) => toPg(params[parameter]));
  const query = prepare && !statement.unprepared ? { text, values, name } : { text, values };
  try {
    return (await on.query(query)).rows as SqlRow[];
  } catch (error) {
    throw withoutDetail(error);
  }
}
