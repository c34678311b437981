import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import type { Database } from "../dialect.js";
import { type SqlExecutor, statement } from "../driver.js";
import { callersTransaction, type MssqlTransaction } from "./connection.js";
import { sqlServerDialect } from "./dialect.js";
import { connectSqlServer, type SqlServerOptions } from "./open.js";

export type { SqlServerOptions } from "./open.js";

/**
 * A SQL Server or Azure SQL database; the driver is loaded and the pool made at first use.
 * Connections are encrypted unless the settings say otherwise.
 *
 * @example
 * const db = openSqlServer({ url: "mssql://app:secret@db.example/orders" });
 */
export function openSqlServer(options: SqlServerOptions): Database<"sqlserver"> {
  const opened = connectSqlServer(options);
  return {
    ...opened,
    dialect: sqlServerDialect,
    exclusively: (schema, work) =>
      opened.driver.transaction(
        async (tx) => {
          const [row] = await tx.query(lock, { key: `oncebox:${schema}` });
          if (Number(row?.result) < 0) throw notLocked(schema, Number(row?.result));
          return work(tx);
        },
        { requestTimeoutMs: migrationTimeoutMs },
      ),
  };
}

/** Longer than the wait for the lock; a migration may also build an index on a large table. */
const migrationTimeoutMs = 600_000;

/** The transaction owns the lock, so the lock ends with the commit, the rollback or the connection, and never stays in the pool. */
const lock = statement(
  "migration lock",
  `declare @result int;
exec @result = sp_getapplock @Resource = @key, @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = 300000;
select @result as result`,
);

const notLocked = (schema: string, result: number) =>
  new InvalidOperationError(
    `Another process has been migrating the schema "${schema}" for five minutes (sp_getapplock: ${result}). Try again when it has finished.`,
  );

const executors = new WeakMap<MssqlTransaction, SqlExecutor<"sqlserver">>();

/**
 * A caller's own mssql Transaction that has begun. From now on its `commit` waits for the statements that were given before
 * it, and its `rollback` for the one that runs; the others are refused.
 *
 * @example
 * const transaction = pool.transaction();
 * await transaction.begin();
 * await outbox.enqueue({ topic: "order.created", payload }, { tx: fromMssql(transaction) });
 * await transaction.commit();
 */
export function fromMssql(transaction: MssqlTransaction): SqlExecutor<"sqlserver"> {
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
    executor = callersTransaction(transaction);
    executors.set(transaction, executor);
  }
  return executor;
}
