import { InvalidArgumentError } from "../../errors.js";
import { type AdaptedTransaction, asTransaction, endedError, type SqlRow } from "../../sql/driver.js";
import { executorOf, requireDialect, transactionEnd } from "./executor.js";

/** The used part of TypeORM's EntityManager inside of a transaction. */
export interface TypeOrmManager {
  readonly connection: { readonly options: { readonly type: string } };
  readonly queryRunner?:
    | {
        readonly isTransactionActive: boolean;
        query(text: string, values: never[], useStructuredResult: true): Promise<unknown>;
        commitTransaction(): Promise<void>;
        rollbackTransaction(): Promise<void>;
      }
    | undefined;
}

const dialects: Readonly<Record<string, string>> = {
  postgres: "postgres",
  "aurora-postgres": "postgres",
  mssql: "sqlserver",
  sqljs: "sqlite",
  sqlite: "sqlite",
  "better-sqlite3": "sqlite",
};

/**
 * A TypeORM transaction of the caller's, on PostgreSQL, SQL Server or SQLite.
 *
 * @example
 * await dataSource.transaction(async (manager) => {
 *   await manager.save(order);
 *   await outbox.enqueue({ topic: "order.created", payload }, { tx: fromTypeOrm(manager) });
 * });
 */
export function fromTypeOrm(manager: TypeOrmManager): AdaptedTransaction {
  const runner = manager?.queryRunner;
  if (runner?.isTransactionActive !== true) {
    throw new InvalidArgumentError(
      "fromTypeOrm takes the manager that dataSource.transaction hands to its callback.",
    );
  }
  const dialect = requireDialect(dialects[manager.connection.options.type], "fromTypeOrm");
  const { commitTransaction, rollbackTransaction } = runner;
  const end = transactionEnd(runner, ({ after }) =>
    Object.assign(runner, {
      commitTransaction: () => after(() => commitTransaction.call(runner)),
      rollbackTransaction: () => after(() => rollbackTransaction.call(runner)),
    }),
  );
  const executor = executorOf(dialect, manager, {
    placeholder: (index, name) => (name === "sqlserver" ? `@${index - 1}` : `$${index}`),
    async run(text, values) {
      const { records } = (await runner.query(text, values as never[], true)) as {
        records?: readonly SqlRow[];
      };
      return records ?? [];
    },
  });
  return asTransaction({
    native: manager,
    query: (statement, params) =>
      end.before(async () => {
        if (!runner.isTransactionActive) throw endedError();
        return executor.query(statement, params);
      }),
  });
}
