import { createHash } from "node:crypto";
import type { PoolClient } from "pg";
import { InvalidOperationError } from "../../errors.js";
import {
  endedError,
  type SqlExecutor,
  type SqlParams,
  type SqlRow,
  type SqlStatement,
  type SqlValue,
  transactionScope,
} from "../driver.js";
import { type PositionalText, toPositional } from "../named-parameters.js";
import { explained, withoutDetail } from "./faults.js";

/**
 * Runs `work` in a transaction on the client. BEGIN is sent together with the first statement, or when `native` is first read: one
 * round trip less where pg pipelines, and none for a transaction without statements.
 */
export async function runTransaction<T>(
  client: PoolClient,
  prepare: boolean,
  work: (tx: SqlExecutor<"postgres">) => Promise<T>,
): Promise<T> {
  let begun: Promise<unknown> | undefined;
  const begin = (): Promise<unknown> => {
    begun ??= client.query("begin");
    begun.catch(() => {}); // whoever waits for it reports it
    return begun;
  };
  const scope = transactionScope<"postgres">({
    // Only a pipelining client sends every statement at once. Otherwise a statement that waits behind a failed one could
    // be dropped, and the rest committed without it.
    pipelines: client.pipeline === true,
    async query(statement, params) {
      if (begun !== undefined && isOutside(client)) throw endedError();
      const beginning = begin();
      const [rows] = await Promise.all([pgClientQuery(client, statement, params, prepare), beginning]);
      return rows;
    },
    /** Whoever reads it may send a statement next, which must be behind BEGIN. */
    get native() {
      begin();
      return client;
    },
  });
  try {
    const result = await work(scope.tx);
    scope.end();
    if (begun !== undefined) {
      await begun;
      await commit(client);
    }
    return result;
  } catch (error) {
    scope.end();
    if (begun !== undefined)
      await client.query("rollback").catch((failure: Error) => client.emit("error", failure));
    throw error;
  }
}

async function commit(client: PoolClient): Promise<void> {
  // After a failed statement the server answers COMMIT with ROLLBACK and reports no error.
  const { command } = await client.query("commit");
  if (command !== "COMMIT") {
    throw new InvalidOperationError("The transaction was rolled back, because a statement in it had failed.");
  }
}

/** What newer versions of pg know of their connection. */
interface TransactionStatus {
  /** No statement is under way. */
  readonly readyForQuery?: boolean;
  getTransactionStatus?(): string | null;
}

/** No transaction is open. A `begin` that is still under way counts as open. */
export function isOutside(client: object): boolean {
  const { readyForQuery } = client as TransactionStatus;
  return readyForQuery === true && (client as TransactionStatus).getTransactionStatus?.() === "I";
}

/** What a pg Client, PoolClient or Pool has; a caller's own transaction comes as one of them. */
export interface PgQueryable {
  query(config: QueryConfig): Promise<{ rows: unknown[] }>;
}

interface QueryConfig {
  text: string;
  values: unknown[];
  name?: string;
}

/** On the caller's connection. Nothing is prepared: it may go through a pooler that keeps no prepared statements. */
export async function pgQuery(
  on: PgQueryable,
  statement: SqlStatement,
  params: SqlParams,
): Promise<readonly SqlRow[]> {
  try {
    return (await on.query(toConfig(statement, params, false))).rows as SqlRow[];
  } catch (error) {
    throw withoutDetail(error);
  }
}

/**
 * On a connection of our own. With pg's callback instead of its promise: the rows of a batch are then collected while they
 * are young, and a drain takes 15 instead of 18 µs of CPU for a message.
 */
export const pgClientQuery = (
  client: PoolClient,
  statement: SqlStatement,
  params: SqlParams,
  prepare: boolean,
): Promise<readonly SqlRow[]> =>
  new Promise((resolve, reject) => {
    client.query(toConfig(statement, params, prepare), (error: Error | undefined, result) => {
      if (error) reject(explained(withoutDetail(error)));
      else resolve(result.rows as SqlRow[]);
    });
  });

function toConfig(statement: SqlStatement, params: SqlParams, prepare: boolean): QueryConfig {
  const { text, order, name } = compile(statement);
  const values = order.map((parameter) => toPg(params[parameter]));
  return prepare && !statement.unprepared ? { text, values, name } : { text, values };
}

interface Compiled extends PositionalText {
  /** Of the prepared statement: a digest, because two queues have statements of the same name with different texts. */
  readonly name: string;
}

const compiled = new WeakMap<SqlStatement, Compiled>();

function compile(statement: SqlStatement): Compiled {
  let entry = compiled.get(statement);
  if (entry === undefined) {
    const positional = toPositional(statement.text);
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
