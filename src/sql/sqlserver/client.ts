import type { ConnectionPool, config as MssqlConfig } from "mssql";
import { abortable } from "../../base/abortable.js";
import { defined } from "../../base/defined.js";
import { memoisePromise } from "../../base/memoise-promise.js";
import { DriverMissingError } from "../../errors.js";
import type { QueryOptions, SqlDriver, SqlExecutor, SqlParams, SqlRow, SqlStatement } from "../driver.js";
import { toVariables } from "../named-parameters.js";
import { closedError, transactionScope } from "../transaction-scope.js";
import { transactionSlots } from "../transaction-slots.js";
import { type ParameterKind, parameterKind, parameterValue } from "./parameters.js";

export type { MssqlConfig };

/** The part of mssql's Request that is used. */
export interface MssqlRequest {
  input(name: string, value: unknown): unknown;
  input(name: string, type: never, value: unknown): unknown;
  query(text: string): Promise<{ recordset?: unknown }>;
  batch(text: string): Promise<{ recordset?: unknown }>;
  cancel(): unknown;
}

/** What an mssql Transaction has; a caller's own comes as one. */
export interface MssqlTransaction {
  request(): MssqlRequest;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

type MssqlModule = typeof import("mssql");
type Types = Readonly<Record<ParameterKind, unknown>>;

interface Started {
  /** Settles when the server is done with it, aborted or not. */
  readonly running: Promise<readonly SqlRow[]>;
  cancel(): void;
}

/** Without `types` mssql derives them from the values: a caller's transaction may belong to another copy of mssql. */
function start(request: MssqlRequest, statement: SqlStatement, params: SqlParams, types?: Types): Started {
  const { text, order } = toVariables(statement.text, params);
  for (const name of order) {
    const value = params[name] ?? null;
    if (types === undefined) request.input(name, parameterValue(value));
    else request.input(name, types[parameterKind(value)] as never, parameterValue(value));
  }
  // A batch of its own, not a call of sp_executesql: some DDL must be alone in its batch.
  const running = statement.unprepared ? request.batch(text) : request.query(text);
  return {
    running: running.then(({ recordset }) => (recordset ?? []) as readonly SqlRow[]),
    cancel: () => void request.cancel(),
  };
}

export interface TransactionExecutor extends SqlExecutor {
  /** Resolves when nothing runs on the connection any more. */
  idle(): Promise<void>;
}

/** One statement after the other: mssql refuses a second one on a transaction while the first still runs. */
export function transactionExecutor(transaction: MssqlTransaction, types?: Types): TransactionExecutor {
  let last: Promise<unknown> = Promise.resolve();
  return {
    idle: async () => {
      await last;
    },
    query(statement, params, options) {
      let cancel = (): void => {};
      const running = last.then(() => {
        options?.signal?.throwIfAborted();
        const started = start(transaction.request(), statement, params, types);
        cancel = started.cancel;
        return started.running;
      });
      last = running.catch(() => {});
      return abortable(running, options?.signal, { cancel: () => cancel() });
    },
  };
}

export interface MssqlClientOptions {
  /** ADO.NET style, read by mssql itself. */
  readonly connectionString?: string | undefined;
  readonly config: Partial<MssqlConfig>;
  readonly maxConnections?: number | undefined;
}

export interface MssqlTransactionOptions extends QueryOptions {
  /** For what takes longer than the connection's request timeout: a migration. */
  readonly requestTimeoutMs?: number | undefined;
}

export interface MssqlDriver extends SqlDriver {
  transaction<T>(work: (tx: SqlExecutor) => Promise<T>, options?: MssqlTransactionOptions): Promise<T>;
}

interface Opened {
  readonly pool: ConnectionPool;
  readonly types: Types;
}

/** A pool, made at first use; the driver is loaded then too. */
export function mssqlClient(options: MssqlClientOptions): MssqlDriver {
  let opening: Promise<Opened> | undefined;
  let closed = false;
  const { maxConnections, config } = options;
  const slots = transactionSlots(maxConnections ?? config.pool?.max ?? 10); // mssql's own default

  const connectPool = memoisePromise(() => connect(options));
  const open = async (): Promise<Opened> => {
    if (closed) throw closedError();
    opening = connectPool();
    return opening;
  };

  const inTransaction = async <T>(
    work: (tx: SqlExecutor) => Promise<T>,
    signal: AbortSignal | undefined,
    requestTimeoutMs: number | undefined,
  ): Promise<T> => {
    const { pool, types } = await abortable(open(), signal);
    const transaction = beginnable(pool, requestTimeoutMs);
    await transaction.begin();
    const tx = transactionExecutor(transaction, types);
    const scope = transactionScope({ query: (s, p, o) => tx.query(s, p, { signal, ...o }) });
    try {
      const result = await abortable(work(scope.tx), signal);
      scope.end();
      await tx.idle();
      await transaction.commit();
      return result;
    } catch (error) {
      scope.end();
      // Where the server has rolled back already this fails, and the first error is the one to report.
      const undone = tx.idle().then(() => transaction.rollback().catch(() => {}));
      if (!signal?.aborted) await undone;
      throw error;
    }
  };

  return {
    async query(statement, params, { signal } = {}) {
      signal?.throwIfAborted();
      const { pool, types } = await abortable(open(), signal);
      const { running, cancel } = start(pool.request(), statement, params, types);
      return abortable(running, signal, { cancel });
    },

    async transaction<T>(
      work: (tx: SqlExecutor) => Promise<T>,
      { signal, requestTimeoutMs }: MssqlTransactionOptions = {},
    ) {
      signal?.throwIfAborted();
      const release = await slots.take(signal);
      try {
        return await inTransaction(work, signal, requestTimeoutMs);
      } finally {
        release();
      }
    },

    async open() {
      await open();
    },

    async close() {
      closed = true;
      const opened = await opening?.catch(() => undefined);
      opening = undefined;
      await opened?.pool.close();
    },
  };
}
/** mssql takes a timeout for a transaction's requests since 12; its types do not know yet. */
function beginnable(pool: ConnectionPool, requestTimeout: number | undefined) {
  const make = pool.transaction as (
    this: ConnectionPool,
    overrides: object,
  ) => ReturnType<ConnectionPool["transaction"]>;
  return make.call(pool, defined({ requestTimeout }));
}

async function connect(options: MssqlClientOptions): Promise<Opened> {
  const mssql = await loadMssql();
  const { connectionString } = options;
  const parsed =
    connectionString === undefined ? {} : mssql.ConnectionPool.parseConnectionString(connectionString);
  const pool = new mssql.ConnectionPool(merged(options, parsed));
  // A connection that breaks while idle is dropped by the pool; unheard, the event would end the process.
  pool.on("error", () => {});
  await pool.connect();
  return { pool, types: parameterTypes(mssql) };
}

/** The connection string over the settings; times are read as what they are, UTC. A copy: mssql writes to what it gets. */
function merged({ config, maxConnections }: MssqlClientOptions, parsed: Partial<MssqlConfig>): MssqlConfig {
  return {
    ...config,
    ...parsed,
    pool: { ...config.pool, ...parsed.pool, ...defined({ max: maxConnections }) },
    options: { ...config.options, ...parsed.options, useUTC: true },
  } as MssqlConfig;
}

const parameterTypes = (mssql: MssqlModule): Types => ({
  "nvarchar(max)": mssql.NVarChar(mssql.MAX),
  bigint: mssql.BigInt(),
  float: mssql.Float(),
  bit: mssql.Bit(),
  "varbinary(max)": mssql.VarBinary(mssql.MAX),
});

async function loadMssql(): Promise<MssqlModule> {
  try {
    return ((await import("mssql")) as unknown as { default: MssqlModule }).default;
  } catch (error) {
    throw new DriverMissingError("mssql", "SQL Server", error);
  }
}
