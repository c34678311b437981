import { InvalidArgumentError } from "../../errors.js";
import type { AdaptedTransaction } from "../../sql/driver.js";
import { endsTransaction, executorOf, rowsOf, transactionEnd, untilEnd } from "./executor.js";

/** The used part of a Drizzle transaction: `execute` on PostgreSQL, `all` on SQLite. */
export interface DrizzleTransaction {
  execute?(query: never): PromiseLike<unknown>;
  all?(query: never): unknown;
  rollback(): never;
}

/**
 * A Drizzle transaction of the caller's, on PostgreSQL with any driver, or on SQLite with a driver that returns promises.
 * With better-sqlite3, Drizzle's transactions are synchronous: use `fromSqlite` there.
 *
 * @example
 * await drizzle.transaction(async (tx) => {
 *   await tx.insert(orders).values(order);
 *   await outbox.enqueue({ topic: "order.created", payload }, { tx: fromDrizzle(tx) });
 * });
 */
export function fromDrizzle(tx: DrizzleTransaction): AdaptedTransaction {
  if (typeof tx?.rollback !== "function") {
    throw new InvalidArgumentError(
      "fromDrizzle takes the transaction that drizzle's transaction hands to its callback.",
    );
  }
  if (typeof tx.execute === "function") {
    const execute = tx.execute.bind(tx);
    return executorOf("postgres", tx, {
      run: async (text, values) => rowsOf(await execute(query(text, values) as never)),
    });
  }
  if (typeof tx.all !== "function" || (tx as { resultKind?: unknown }).resultKind !== "async") {
    throw new InvalidArgumentError(
      "fromDrizzle: this driver's transactions are synchronous. Begin and commit by hand, and use fromSqlite(connection).",
    );
  }
  const all = tx.all.bind(tx);
  const executor = executorOf("sqlite", tx, {
    run: async (text, values) => rowsOf(await all(query(text, values) as never)),
  });
  return boundToEnd(tx as unknown as DrizzleOnSqlite, executor);
}

/** What a transaction on SQLite has, and its types do not say. */
interface DrizzleOnSqlite {
  readonly dialect: { sqlToQuery(query: unknown): { readonly sql: string } };
  readonly session: { run(query: unknown): Promise<unknown> };
}

/** Drizzle sends the commit or rollback by its session, whether statements run or not. */
function boundToEnd({ session, dialect }: DrizzleOnSqlite, executor: AdaptedTransaction): AdaptedTransaction {
  const end = transactionEnd(session, ({ after }) => {
    const run = session.run.bind(session);
    session.run = (text) =>
      endsTransaction(dialect.sqlToQuery(text).sql) ? after(() => run(text)) : run(text);
  });
  return untilEnd(end, executor);
}

/** The interface that Drizzle expects of a piece of SQL: itself, and its text with the values. */
function query(text: string, values: readonly unknown[]): object {
  const piece: object = {
    getSQL: () => piece,
    toQuery: () => ({ sql: text, params: values, typings: [] }),
  };
  return piece;
}
