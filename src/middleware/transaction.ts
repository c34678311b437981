import { AsyncLocalStorage } from "node:async_hooks";
import { PermanentFailure, RetryAfter } from "../dispatch/settlement.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { OutgoingMessage, WithData } from "../queue/message.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { StageMiddleware } from "./compose.js";

/** Runs `work` in a transaction of your own library. It must commit when `work` resolves and roll back when it rejects. */
export type BeginTransaction = <T>(work: (tx: SqlExecutor, native?: unknown) => Promise<T>) => Promise<T>;

/** Options of the transaction middleware. */
export interface TransactionOptions {
  /**
   * Opens the transaction with your own library instead of this package's driver:
   * `(work) => knex.transaction((trx) => work(fromKnex(trx), trx))`.
   */
  readonly begin?: BeginTransaction;
}

/** Middleware that runs the function in a transaction. */
export interface TransactionMiddleware extends StageMiddleware {
  readonly stage: "transaction";
  readonly db: Database;
  /** For frameworks with a hook before and a hook after the handler, such as middy. */
  open(): Promise<OpenTransaction>;
}

export interface OpenTransaction {
  readonly scope: TransactionScope;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/**
 * Begins before the handler, commits when it resolves, rolls back when the handler or a middleware inside throws.
 *
 * @example
 * compose([transaction(db)], handler)
 */
export function transaction(db: Database, options: TransactionOptions = {}): TransactionMiddleware {
  if (typeof db?.driver?.transaction !== "function") {
    throw new InvalidArgumentError(
      "transaction needs a database: openPostgres(…), openSqlServer(…) or openSqlite(…).",
    );
  }
  refuseUnknown(options, ["begin"], "transaction");
  if (options.begin !== undefined && typeof options.begin !== "function")
    throw new InvalidArgumentError(
      "transaction: begin must be a function (work) => promise that calls work(tx).",
    );
  const begin: BeginTransaction = options.begin ?? ((work) => db.driver.transaction((tx) => work(tx)));

  const within = async <T>(work: (scope: TransactionScope) => Promise<T>): Promise<T> => {
    // An inner transaction would commit even if the outer one rolls back, and on a full pool it would wait for ever.
    if (currentScope()?.db === db) {
      throw new InvalidOperationError(
        "transaction: this code is already in a transaction on the same database. Remove the inner transaction(db) to join it.",
      );
    }
    let written: Promise<unknown> | undefined;
    try {
      return await begin(async (tx, native) => {
        const scope: TransactionScope = { db, tx, native, open: true };
        try {
          return await work(scope);
        } finally {
          scope.open = false;
          written = scope.written;
        }
      });
    } finally {
      await written; // when the insert and the commit behind it both fail, the insert's error is the cause
    }
  };

  return {
    stage: "transaction",
    db,
    run: (_message, next) => within((scope) => ambient.run(scope, next)),
    open: () => openWithin(within),
  };
}

/** Thrown into a transaction to roll it back, and caught outside of it. */
const undone = new Error("rolled back");

/** Turns a transaction that surrounds a callback into one that is opened, and later committed or rolled back. */
function openWithin(
  within: (work: (scope: TransactionScope) => Promise<void>) => Promise<void>,
): Promise<OpenTransaction> {
  return new Promise((opened, failed) => {
    const ended = within(
      (scope) =>
        new Promise<void>((commit, rollback) => {
          const end = async (finish: () => void): Promise<void> => {
            finish();
            await ended.catch((error) => {
              if (error !== undone) throw error;
            });
          };
          opened({ scope, commit: () => end(commit), rollback: () => end(() => rollback(undone)) });
        }),
    );
    ended.catch(failed); // the transaction could not begin; once it is open this has no effect
  });
}

/** Commits when the outcome is `handled`, and rolls back otherwise. */
export async function commitIfHandled<Outcome extends { readonly kind: string }>(
  transaction: TransactionMiddleware,
  work: () => Promise<Outcome>,
): Promise<Outcome> {
  let outcome: Outcome | undefined;
  try {
    await transaction.run(undefined, async () => {
      outcome = await work();
      if (outcome.kind !== "handled") throw undone;
    });
  } catch (error) {
    if (error !== undone) throw error;
  }
  return outcome!;
}

/** One run of a handler inside a transaction. */
export interface TransactionScope {
  readonly db: Database;
  readonly tx: SqlExecutor;
  /** The transaction object of the caller's own library, when `transaction` was given a `begin`. */
  readonly native: unknown;
  /** Messages of `publish`, which the outbox middleware writes in one statement. Undefined without that middleware. */
  outgoing?: WithData<OutgoingMessage>[] | undefined;
  /** The outbox's insert, when it is sent together with the commit. */
  written?: Promise<unknown> | undefined;
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
 * publish({ topic: "order.placed", data: order });
 */
export function publish(...messages: readonly WithData<OutgoingMessage>[]): void {
  const outgoing = currentScope()?.outgoing;
  if (outgoing === undefined) {
    throw new InvalidOperationError(
      "publish: there is no outbox middleware around this code. Call it in a handler with the middleware transaction(db) and outbox().",
    );
  }
  outgoing.push(...messages);
}

/** A handler may return `permanentFailure` or `retryAfter`, as in a dispatcher. Returned to the middleware, it would commit. */
export function throwFailureResult(output: unknown): unknown {
  if (output instanceof PermanentFailure || output instanceof RetryAfter) throw output;
  return output;
}
