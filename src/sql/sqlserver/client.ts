import type { ConnectionPool, config as MssqlConfig, Transaction } from "mssql";
import { abortable, memoisePromise } from "../../base/async.js";
import { omitUndefined } from "../../base/defined.js";
import { DriverMissingError } from "../../errors.js";
import {
  closedError,
  type QueryOptions,
  type SqlDriver,
  type SqlExecutor,
  transactionSlots,
} from "../driver.js";
import { runTransaction, startRequest, type Types } from "./connection.js";
import { classify, type Wait, whenResumed } from "./faults.js";
import { openPool, reportLoginNumbers } from "./pool.js";

export type { MssqlConfig };

type MssqlModule = typeof import("mssql");

export interface MssqlClientOptions {
  /** ADO.NET style, read by mssql itself. */
  readonly connectionString?: string | undefined;
  readonly config: Partial<MssqlConfig>;
  /** The caller's own, instead of one that is made with the settings. */
  readonly pool?: ConnectionPool;
  readonly maxConnections?: number | undefined;
  /** How it waits for a database that resumes. */
  readonly wait?: Wait;
}

export interface MssqlTransactionOptions extends QueryOptions {
  /** For what takes longer than the connection's request timeout: a migration. */
  readonly requestTimeoutMs?: number | undefined;
}

export interface MssqlDriver extends SqlDriver<"sqlserver"> {
  transaction<T>(
    work: (tx: SqlExecutor<"sqlserver">) => Promise<T>,
    options?: MssqlTransactionOptions,
  ): Promise<T>;
}

interface Opened {
  readonly pool: ConnectionPool;
  /** Undefined for a caller's pool, which may belong to another copy of mssql. */
  readonly types: Types | undefined;
}

/** A pool, made at first use; the driver is loaded then too. */
export function mssqlClient(options: MssqlClientOptions): MssqlDriver {
  let opening: Promise<Opened> | undefined;
  let closed = false;
  const { maxConnections, config, wait } = options;
  const slots = transactionSlots(maxConnections ?? config.pool?.max ?? 10); // mssql's own default

  const connectPool = memoisePromise(() => connect(options));
  const open = async (): Promise<Opened> => {
    if (closed) throw closedError();
    opening = connectPool();
    return opening;
  };

  const beginOnce = ({ signal, requestTimeoutMs }: MssqlTransactionOptions) =>
    whenResumed(
      async () => {
        const { pool, types } = await abortable(open(), signal);
        // mssql takes a timeout for a transaction's requests since 12; its types do not know yet.
        const { transaction: make } = pool as unknown as { transaction(overrides: object): Transaction };
        const transaction = make.call(pool, omitUndefined({ requestTimeout: requestTimeoutMs }));
        await transaction.begin();
        return { transaction, types };
      },
      signal,
      wait,
    );

  /** A connection that died while idle is noticed here at the latest. Nothing has run, so another one is taken. */
  const begin = (options: MssqlTransactionOptions) =>
    beginOnce(options).catch((error: unknown) => {
      if (options.signal?.aborted || classify(error) !== "unknown") throw error;
      return beginOnce(options);
    });

  return {
    async query(statement, params, { signal } = {}) {
      signal?.throwIfAborted();
      return whenResumed(
        async () => {
          const { pool, types } = await abortable(open(), signal);
          const { running, cancel } = startRequest(pool.request(), statement, params, types);
          return abortable(running, signal, { cancel });
        },
        signal,
        wait,
      );
    },

    async transaction(work, transactionOptions = {}) {
      const { signal } = transactionOptions;
      signal?.throwIfAborted();
      const release = await slots.take(signal);
      try {
        const { transaction, types } = await begin(transactionOptions);
        return await runTransaction(transaction, types, work, signal);
      } finally {
        release();
      }
    },

    async open() {
      await whenResumed(open, undefined, wait);
    },

    async close() {
      closed = true;
      const opened = await opening?.catch(() => undefined);
      opening = undefined;
      if (options.pool === undefined) await opened?.pool.close();
    },
  };
}

async function connect(options: MssqlClientOptions): Promise<Opened> {
  if (options.pool !== undefined) {
    reportLoginNumbers(options.pool);
    return { pool: await options.pool.connect(), types: undefined };
  }
  const mssql = await loadMssql();
  const { connectionString } = options;
  const parsed =
    connectionString === undefined ? {} : mssql.ConnectionPool.parseConnectionString(connectionString);
  const pool = await openPool(mssql, merged(options, parsed));
  return { pool, types: parameterTypes(mssql) };
}

/** The connection string over the settings; times are read as what they are, UTC. A copy: mssql writes to what it gets. */
function merged({ config, maxConnections }: MssqlClientOptions, parsed: Partial<MssqlConfig>): MssqlConfig {
  return {
    ...config,
    ...parsed,
    pool: { ...config.pool, ...parsed.pool, ...omitUndefined({ max: maxConnections }) },
    options: {
      maxRetriesOnTransientErrors: 0, // tedious knows six of the faults, and not how long a call may take
      ...config.options,
      ...parsed.options,
      useUTC: true,
    },
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
