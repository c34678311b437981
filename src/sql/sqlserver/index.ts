import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import type { Database } from "../dialect.js";
import { type SqlExecutor, statement } from "../driver.js";
import {
  type MssqlConfig,
  type MssqlTransaction,
  mssqlClient,
  type TransactionExecutor,
  transactionExecutor,
} from "./client.js";
import { describe, describeConnectionString, parseMssqlUrl } from "./connection-settings.js";
import { sqlServerDialect } from "./dialect.js";

export { sqlServerDialect } from "./dialect.js";

export interface SqlServerOptions {
  /** `mssql://user:password@host:1433/database?trustServerCertificate=false` */
  readonly url?: string;
  /** `Server=tcp:host,1433;Database=orders;User Id=app;Password=…;Encrypt=true` */
  readonly connectionString?: string;
  /** Anything else `mssql` takes: authentication for Microsoft Entra, timeouts, … The url or connectionString wins over it. */
  readonly config?: Partial<MssqlConfig>;
  /** Connections of this instance: 4 by default. */
  readonly maxConnections?: number;
}

/**
 * A SQL Server or Azure SQL database; the driver is loaded and the pool made at first use.
 * Connections are encrypted unless the settings say otherwise.
 *
 * @example
 * const db = openSqlServer({ url: "mssql://app:secret@db.example/orders" });
 */
export function openSqlServer(options: SqlServerOptions): Database {
  const { url, connectionString } = options;
  refuseUnknown(options, ["url", "connectionString", "config", "maxConnections"], "openSqlServer");
  if (url !== undefined && connectionString !== undefined) {
    throw new InvalidArgumentError("openSqlServer takes a url or a connectionString, not both.");
  }
  if (url === undefined && connectionString === undefined && !options.config?.server) {
    throw new InvalidArgumentError(
      "openSqlServer needs a url, a connectionString, or a config with a server.",
    );
  }
  const fromUrl: Partial<MssqlConfig> = url === undefined ? {} : parseMssqlUrl(url);
  const config: Partial<MssqlConfig> = {
    connectionTimeout: 15_000,
    requestTimeout: 30_000,
    // The socket is looked at before use; asking the server as well would double the round trips.
    validateConnection: "socket",
    ...options.config,
    ...fromUrl,
    pool: { max: 4, min: 0, idleTimeoutMillis: 30_000, ...options.config?.pool },
    options: { appName: "oncebox", encrypt: true, ...options.config?.options, ...fromUrl.options },
  };
  const driver = mssqlClient({ connectionString, config, maxConnections: options.maxConnections });
  return {
    dialect: sqlServerDialect,
    driver,
    id: `sqlserver:${connectionString === undefined ? describe(config.server, config.database) : describeConnectionString(connectionString)}`,
    exclusively: (schema, work) =>
      driver.transaction(
        async (tx) => {
          const [row] = await tx.query(lock, { key: `oncebox:${schema}` });
          if (Number(row?.result) < 0) throw notLocked(schema, Number(row?.result));
          return work(tx);
        },
        { requestTimeoutMs: migrationTimeoutMs },
      ),
    close: () => driver.close(),
  };
}

/** Longer than the lock is waited for; a migration may also build an index on a large table. */
const migrationTimeoutMs = 600_000;

/** The transaction owns the lock: it goes with the commit, the rollback or the connection, and never stays in the pool. */
const lock = statement(
  "migration lock",
  `declare @result int;
exec @result = sp_getapplock @Resource = @key, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 300000;
select @result as result`,
);

const notLocked = (schema: string, result: number) =>
  new InvalidOperationError(
    `Another process has been migrating the schema "${schema}" for five minutes (sp_getapplock: ${result}). Try again when it is done.`,
  );

const executors = new WeakMap<MssqlTransaction, TransactionExecutor>();

/**
 * A caller's own mssql Transaction that has begun.
 *
 * @example
 * const transaction = pool.transaction();
 * await transaction.begin();
 * await outbox.enqueue({ topic: "order.created", payload }, { tx: fromMssql(transaction) });
 * await transaction.commit();
 */
export function fromMssql(transaction: MssqlTransaction): SqlExecutor {
  const fits = [transaction?.request, transaction?.commit, transaction?.rollback].every(
    (it) => typeof it === "function",
  );
  if (!fits) {
    throw new InvalidArgumentError(
      "fromMssql takes an mssql Transaction that has begun, not a ConnectionPool or a Request.",
    );
  }
  let executor = executors.get(transaction);
  if (executor === undefined) {
    executor = transactionExecutor(transaction);
    executors.set(transaction, executor);
  }
  return { query: executor.query };
}
