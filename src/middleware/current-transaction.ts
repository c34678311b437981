import { AsyncLocalStorage } from "node:async_hooks";
import { InvalidOperationError } from "../errors.js";
import type { OutgoingMessage } from "../outbox/outbox.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";

/** One run of a handler inside a transaction. */
export interface TransactionScope {
  readonly db: Database;
  readonly tx: SqlExecutor;
  /** The transaction as the caller's own library knows it, where `transaction` was given a `begin`. */
  readonly native: unknown;
  /** What `publish` has put by until the outbox middleware writes it, in one statement. Without one, undefined. */
  outgoing: OutgoingMessage[] | undefined;
  /** The outbox's insert, where it is on its way together with the commit. */
  written: Promise<unknown> | undefined;
  /** Until it is committed or rolled back. */
  open: boolean;
}

export const ambient = new AsyncLocalStorage<TransactionScope>();

/** Of the handler that is running; one that has ended is none, even if something it left behind still sees it. */
export function currentScope(): TransactionScope | undefined {
  const scope = ambient.getStore();
  return scope?.open ? scope : undefined;
}

/**
 * The transaction that the running handler is in, for a repository deep inside to join; undefined outside of one.
 *
 * @example
 * await (currentTransaction() ?? db.driver).query(insertOrder, { id });
 */
export const currentTransaction = (): SqlExecutor | undefined => currentScope()?.tx;

/**
 * The same transaction as your own library's object, where `transaction(db, { begin })` opened it with that library.
 *
 * @example
 * const trx = currentNativeTransaction<Knex.Transaction>();
 */
export const currentNativeTransaction = <Native>(): Native | undefined =>
  currentScope()?.native as Native | undefined;

/**
 * Sends a message when, and only when, the running handler's transaction commits.
 *
 * @example
 * publish({ topic: "order.placed", payload: JSON.stringify(order) });
 */
export function publish(...messages: readonly OutgoingMessage[]): void {
  const outgoing = currentScope()?.outgoing;
  if (outgoing === undefined) {
    throw new InvalidOperationError(
      "publish: there is no outbox around this code. Run it in a handler that has the middleware transaction(db) and, inside of it, outbox().",
    );
  }
  outgoing.push(...messages);
}
