import { InvalidArgumentError } from "../errors.js";
import { type SqlExecutor, transactionMark } from "./driver.js";

const ways = "fromPg(client), fromMssql(transaction), fromSqlite(db), or the tx of db.driver.transaction(…)";

/** What each library's own object is known by, and what to write instead. The first that fits counts. */
const adapters: readonly (readonly [methods: readonly string[], instead: string])[] = [
  [["query", "transaction"], "the tx of db.driver.transaction(async (tx) => …)"],
  [["query", "connect"], "fromPg(client), after its begin"],
  [["request", "commit"], "fromMssql(transaction), after its begin"],
  [["request"], "fromMssql(transaction), with a transaction of the pool that has begun"],
  [["prepare"], "fromSqlite(db), after its begin"],
  [["$queryRawUnsafe"], "fromPrisma(tx)"],
  [["executeQuery"], "fromKysely(trx)"],
  [["raw"], "fromKnex(trx)"],
  [["getRepository"], "fromTypeOrm(manager)"],
  [["rollback"], "fromDrizzle(tx)"],
];

/** Refuses what is no transaction of this package: its statements would run elsewhere, and be committed on their own. */
export function requireExecutor(tx: unknown): asserts tx is SqlExecutor {
  if ((tx as SqlExecutor | null | undefined)?.[transactionMark] === true) return;
  const has = (method: string) => typeof (Object(tx) as Record<string, unknown>)[method] === "function";
  const adapter = adapters.find(([methods]) => methods.every(has));
  throw new InvalidArgumentError(
    adapter === undefined
      ? `tx must be a transaction: ${ways}. Leave it out for none.`
      : `tx is a library's own object. Give ${adapter[1]}.`,
  );
}
