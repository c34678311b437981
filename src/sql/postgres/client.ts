import { createHash } from "node:crypto";
import type { Pool, PoolClient, PoolConfig } from "pg";
import { DriverMissingError } from "../../errors.js";
import type { QueryOptions, SqlDriver, SqlExecutor, SqlParams, SqlRow, SqlStatement } from "../driver.js";
import { toPositional } from "../named-parameters.js";

/** What a pg Client, PoolClient or Pool has; a caller's own transaction comes as one of them. */
export interface PgQueryable {
  query(config: { text: string; values: unknown[]; name?: string }): Promise<{ rows: unknown[] }>;
}

interface Compiled {
  readonly text: string;
  readonly order: readonly string[];
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

const toPg = (value: SqlParams[string] | undefined): unknown =>
  value instanceof Uint8Array
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : (value ?? null);

export async function pgQuery(
  on: PgQueryable,
  statement: SqlStatement,
  params: SqlParams,
  prepare: boolean,
): Promise<readonly SqlRow[]> {
  const { text, order, name } = compile(statement);
  const values = order.map((parameter) => toPg(params[parameter]));
  const named = prepare && !statement.unprepared;
  try {
    const result = await on.query(named ? { name, text, values } : { text, values });
    return result.rows as SqlRow[];
  } catch (error) {
    // "Failing row contains (…)": a payload must not get into a caller's log with the error.
    if (error instanceof Error && "detail" in error) delete error.detail;
    throw error;
  }
}

export interface PgClientOptions {
  readonly config: PoolConfig;
  readonly prepare: boolean;
}

/** A pool, made at first use; the driver is loaded then too. */
export function pgClient(options: PgClientOptions): SqlDriver {
  let opening: Promise<Pool> | undefined;

  const pool = (): Promise<Pool> => {
    opening ??= loadPool(options.config).catch((error) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };

  const withClient = async <T>(
    work: (client: PoolClient) => Promise<T>,
    queryOptions?: QueryOptions,
  ): Promise<T> => {
    queryOptions?.signal?.throwIfAborted();
    const client = await (await pool()).connect();
    let broken: Error | undefined;
    // A client lost while checked out reports it here; its query rejects, and the pool must not get it back.
    const onError = (error: Error): void => {
      broken = error;
    };
    client.on("error", onError);
    try {
      return await abortable(() => work(client), queryOptions?.signal);
    } catch (error) {
      if (queryOptions?.signal?.aborted) void cancel(client);
      if (queryOptions?.signal?.aborted || !isServerError(error)) broken ??= error as Error;
      throw error;
    } finally {
      client.off("error", onError);
      client.release(broken);
    }
  };

  /** A closed socket alone does not stop a statement that waits for a lock: it would still commit later. */
  const cancel = async (client: PoolClient): Promise<void> => {
    const { processID } = client as unknown as { processID?: number };
    if (processID === undefined) return;
    const open = await pool();
    await open.query("select pg_cancel_backend($1)", [processID]).catch(() => {});
  };

  return {
    query: (statement, params, queryOptions) =>
      withClient((client) => pgQuery(client, statement, params, options.prepare), queryOptions),
    transaction: <T>(work: (tx: SqlExecutor) => Promise<T>, queryOptions?: QueryOptions) =>
      withClient(async (client) => {
        const tx: SqlExecutor = {
          query: (statement, params) => pgQuery(client, statement, params, options.prepare),
        };
        await client.query("begin");
        try {
          const result = await work(tx);
          await client.query("commit");
          return result;
        } catch (error) {
          await client.query("rollback").catch(() => {});
          throw error;
        }
      }, queryOptions),
    async close() {
      const open = await opening?.catch(() => undefined);
      opening = undefined;
      await open?.end();
    },
  };
}

/** The server answered with an error, so the connection itself is sound. */
const isServerError = (error: unknown): boolean =>
  /^[0-9A-Z]{5}$/.test((error as { code?: string })?.code ?? "") &&
  !/^(08|57P)/.test((error as { code: string }).code);

async function abortable<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work();
  signal.throwIfAborted();
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  const running = work();
  running.catch(() => {}); // after an abort nobody waits for it
  try {
    return await Promise.race([running, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

async function loadPool(config: PoolConfig): Promise<Pool> {
  let module: typeof import("pg");
  try {
    module = await import("pg");
  } catch (error) {
    throw new DriverMissingError("pg", "PostgreSQL", error);
  }
  const made = new module.default.Pool(config);
  // An idle client that the server closed is dropped by the pool; unheard, the event would end the process.
  made.on("error", () => {});
  return made;
}
