import { InvalidArgumentError } from "../errors.js";
import type { SqlExecutor } from "./driver.js";

const ways = "fromPg(client), fromMssql(transaction), fromSqlite(db), or the tx of db.driver.transaction(…)";

/**
 * Refuses what is no transaction of this package. A client of `pg` and the like have a `query` too, which takes other
 * arguments. They are known by their `connect`.
 */
export function requireExecutor(tx: unknown): asserts tx is SqlExecutor {
  const { query, connect } = (tx ?? {}) as { readonly query?: unknown; readonly connect?: unknown };
  if (typeof query !== "function")
    throw new InvalidArgumentError(`tx must be a transaction: ${ways}. Leave it out for none.`);
  if (typeof connect === "function")
    throw new InvalidArgumentError(`tx is a driver's own connection. Wrap it: ${ways}.`);
}
