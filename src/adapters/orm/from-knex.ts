import { InvalidArgumentError } from "../../errors.js";
import type { AdaptedTransaction } from "../../sql/driver.js";
import { executorOf, requireDialect, rowsOf } from "./executor.js";

/** The used part of a Knex transaction. */
export interface KnexTransaction {
  raw(text: string, bindings: readonly never[]): PromiseLike<unknown>;
  readonly isTransaction?: boolean;
  readonly client: { readonly dialect?: string };
}

const dialects: Readonly<Record<string, string>> = {
  postgresql: "postgres",
  sqlite3: "sqlite",
  mssql: "sqlserver",
};

/** Stands for a placeholder until the text's own question marks are escaped. */
const mark = "\u0001";

/**
 * A Knex transaction of the caller's, on PostgreSQL, SQL Server or SQLite.
 *
 * @example
 * await knex.transaction(async (trx) => {
 *   await trx("orders").insert(order);
 *   await outbox.enqueue({ topic: "order.created", payload }, { tx: fromKnex(trx) });
 * });
 */
export function fromKnex(trx: KnexTransaction): AdaptedTransaction {
  if (typeof trx?.raw !== "function" || trx.isTransaction !== true) {
    throw new InvalidArgumentError(
      "fromKnex takes the transaction that knex.transaction hands to its callback.",
    );
  }
  const dialect = requireDialect(dialects[trx.client?.dialect ?? ""], "fromKnex");
  return executorOf(dialect, trx, {
    placeholder: () => mark,
    async run(text, values) {
      const escaped = dialect === "sqlite" ? text : text.replaceAll("?", "\\?").replaceAll(mark, "?");
      return rowsOf(await trx.raw(escaped, values as readonly never[]));
    },
  });
}
