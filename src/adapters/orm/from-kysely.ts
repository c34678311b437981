import { InvalidArgumentError } from "../../errors.js";
import { type AdaptedTransaction, asTransaction, type SqlRow } from "../../sql/driver.js";
import { endsTransaction, executorOf, requireDialect, transactionEnd, untilEnd } from "./executor.js";

interface KyselyAdapter {
  readonly supportsOutput?: boolean;
  readonly supportsReturning?: boolean;
  readonly supportsTransactionalDdl?: boolean;
}

/** The used part of a Kysely transaction. */
export interface KyselyTransaction {
  readonly isTransaction: boolean;
  getExecutor(): { readonly adapter: KyselyAdapter };
  executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }>;
}

/**
 * A Kysely transaction of the caller's, on PostgreSQL, SQL Server or SQLite.
 *
 * @example
 * await kysely.transaction().execute(async (trx) => {
 *   await trx.insertInto("orders").values(order).execute();
 *   await outbox.enqueue({ topic: "order.created", payload }, { tx: fromKysely(trx) });
 * });
 */
export function fromKysely(trx: KyselyTransaction): AdaptedTransaction {
  if (typeof trx?.executeQuery !== "function" || trx.isTransaction !== true) {
    throw new InvalidArgumentError(
      "fromKysely takes the transaction that kysely.transaction().execute hands to its callback.",
    );
  }
  const dialect = requireDialect(dialectOf(trx.getExecutor().adapter), "fromKysely");
  const executor = executorOf(dialect, trx, {
    placeholder: (index, name) => (name === "sqlserver" ? `@${index}` : `$${index}`),
    async run(text, values) {
      const query = {
        sql: text,
        parameters: values,
        query: { kind: "RawNode", sqlFragments: [text], parameters: [] },
        queryId: { queryId: `oncebox${++queries}` },
      };
      return (await trx.executeQuery(query as never)).rows as readonly SqlRow[];
    },
  });
  return dialect === "postgres" ? boundToEnd(trx, executor) : executor;
}

let queries = 0;

/** By the abilities of each adapter: names of classes do not survive a bundler. */
function dialectOf({
  supportsOutput,
  supportsReturning,
  supportsTransactionalDdl,
}: KyselyAdapter): string | undefined {
  if (supportsOutput) return "sqlserver";
  if (!supportsReturning) return undefined;
  return supportsTransactionalDdl ? "postgres" : "sqlite";
}

interface KyselyConnection {
  executeQuery(query: { readonly sql: string }): Promise<unknown>;
}
interface KyselyProvider {
  provideConnection<T>(consumer: (connection: KyselyConnection) => Promise<T>): Promise<T>;
}

/**
 * Kysely sends its statements one after the other, and the commit or rollback at once. So on PostgreSQL a statement that had
 * to wait would run after the end, on its own. The other databases are asked whether the transaction is open.
 */
function boundToEnd(trx: KyselyTransaction, executor: AdaptedTransaction): AdaptedTransaction {
  let boundExecutor: AdaptedTransaction | undefined;
  // the connection is given at once, unless a statement of the caller's still runs
  const provider = trx.getExecutor() as unknown as KyselyProvider;
  const bound = provider.provideConnection(async (connection) => {
    const end = transactionEnd(connection, ({ after }) => {
      const execute = connection.executeQuery.bind(connection);
      connection.executeQuery = (query) =>
        endsTransaction(query.sql) ? after(() => execute(query)) : execute(query);
    });
    boundExecutor = untilEnd(end, executor);
  });
  bound.catch(() => {}); // the first statement throws it
  return asTransaction({
    native: trx,
    async query(statement, params) {
      if (boundExecutor === undefined) await bound;
      return boundExecutor!.query(statement, params);
    },
  });
}
