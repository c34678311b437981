import { InvalidArgumentError } from "../../errors.js";
import type { SqlExecutor, SqlRow } from "../../sql/driver.js";
import { executorOf, requireDialect } from "./executor.js";

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

/**
 * A Kysely transaction of the caller's, on PostgreSQL, SQL Server or SQLite.
 *
 * @example
 * await kysely.transaction().execute(async (trx) => {
 *   await trx.insertInto("orders").values(order).execute();
 *   await outbox.enqueue({ topic: "order.created", payload }, { tx: fromKysely(trx) });
 * });
 */
export function fromKysely(trx: KyselyTransaction): SqlExecutor {
  if (typeof trx?.executeQuery !== "function" || trx.isTransaction !== true) {
    throw new InvalidArgumentError(
      "fromKysely takes the transaction that kysely.transaction().execute hands to its callback.",
    );
  }
  const dialect = requireDialect(dialectOf(trx.getExecutor().adapter), "fromKysely");
  return executorOf(dialect, {
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
}

let queries = 0;
