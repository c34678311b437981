import { AsyncLocalStorage } from "node:async_hooks";
import { InvalidOperationError } from "../errors.js";
import type { OutgoingMessage } from "../outbox/outgoing-message.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";

/** One run of a handler inside a transaction. */
export interface TransactionScope {
  readonly db: Database;
  readonly tx: SqlExecutor;
  /** The transaction object of the caller's own library, when `transaction` was given a `begin`. */
  readonly native: unknown;
  /** Messages of `publish`, which the outbox middleware writes in one statement. Undefined without that middleware. */
  outgoing: OutgoingMessage[] | undefined;
  /** The outbox's insert, when it is sent together with the commit. */
  written: Promise<unknown> | undefined;
  /** True until the transaction is committed or rolled back. */
  open: boolean;
}

export const ambient = new AsyncLocalStorage<TransactionScope>();

/** The scope of the running handler. Work that a handler left running after its end has none. */
export function currentScope(): TransactionScope | undefined {
  const scope = ambient.getStore();
  return scope?.open ? scope : undefined;
}

export function requireScope(stage: "inbox" | "outbox"): TransactionScope {
  const scope = currentScope();
  if (scope !== undefined) return scope;
  throw new InvalidOperationError(
    `${stage} middleware: there is no transaction around it. Add transaction(db) before ${stage}(…).`,
  );
}

/**
 * The transaction of the running handler, for code deep inside to join. Undefined outside of a transaction.
 *
 * @example
 * await (currentTransaction() ?? db.driver).query(insertOrder, { id });
 */
export const currentTransaction = (): SqlExecutor | undefined => currentScope()?.tx;

/**
 * The same transaction as an object of your own library, when `transaction(db, { begin })` opened it with that library.
 *
 * @example
 * const trx = currentNativeTransaction<Knex.Transaction>();
 */
export const currentNativeTransaction = <Native>(): Native | undefined =>
  currentScope()?.native as Native | undefined;

/**
 * Sends messages if, and only if, the running handler's transaction commits.
 *
 * @example
 * publish({ topic: "order.placed", payload: JSON.stringify(order) });
 */
export function publish(...messages: readonly OutgoingMessage[]): void {
  const outgoing = currentScope()?.outgoing;
  if (outgoing === undefined) {
    throw new InvalidOperationError(
      "publish: there is no outbox middleware around this code. Call it in a handler with the middleware transaction(db) and outbox().",
    );
  }
  outgoing.push(...messages);
}
