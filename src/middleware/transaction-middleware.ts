import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { Database } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { StageMiddleware } from "./compose.js";
import { ambient, currentScope, type TransactionScope } from "./current-transaction.js";

/** Runs `work` in a transaction of your own library's, which commits when it resolves and rolls back when it rejects. */
export type BeginTransaction = <T>(work: (tx: SqlExecutor, native?: unknown) => Promise<T>) => Promise<T>;

export interface TransactionOptions {
  /**
   * Opens the transaction with your own library instead of the database's driver:
   * `(work) => knex.transaction((trx) => work(fromKnex(trx), trx))`.
   */
  readonly begin?: BeginTransaction;
}

export interface TransactionMiddleware extends StageMiddleware {
  readonly stage: "transaction";
  readonly db: Database;
  /** For wrappers that have a start and an end instead of something to call in between. */
  open(): Promise<OpenTransaction>;
}

export interface OpenTransaction {
  readonly scope: TransactionScope;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/**
 * Begins before the handler, commits when it resolves, rolls back when anything inside of it throws.
 *
 * @example
 * compose([transaction(db)], handler)
 */
export function transaction(db: Database, options: TransactionOptions = {}): TransactionMiddleware {
  if (typeof db?.driver?.transaction !== "function") {
    throw new InvalidArgumentError(
      "transaction takes a database: openPostgres(…), openSqlServer(…), openSqlite(…).",
    );
  }
  refuseUnknown(options, ["begin"], "transaction");
  if (options.begin !== undefined && typeof options.begin !== "function")
    throw new InvalidArgumentError("transaction: begin must be a function that calls the work it is given.");
  const begin: BeginTransaction = options.begin ?? ((work) => db.driver.transaction((tx) => work(tx)));

  const within = async <T>(work: (scope: TransactionScope) => Promise<T>): Promise<T> => {
    // It would commit by itself, whatever becomes of the outer one, and on a full pool wait for it for ever.
    if (currentScope()?.db === db) {
      throw new InvalidOperationError(
        "transaction: this code is in a transaction on the same database already. Take this one out, and it joins that.",
      );
    }
    let written: Promise<unknown> | undefined;
    try {
      return await begin(async (tx, native) => {
        const scope: TransactionScope = {
          db,
          tx,
          native,
          outgoing: undefined,
          written: undefined,
          open: true,
        };
        try {
          return await work(scope);
        } finally {
          scope.open = false;
          written = scope.written;
        }
      });
    } finally {
      await written; // what failed first is the one to report: the commit only followed it
    }
  };

  return {
    stage: "transaction",
    db,
    run: (_message, next) => within((scope) => ambient.run(scope, next)),
    open: () => openWithin(within),
  };
}

/** Thrown into a transaction to roll it back; nobody else sees it. */
const undone = new Error("rolled back");

/** Turns a call that surrounds the work into a start and an end. */
function openWithin(
  within: (work: (scope: TransactionScope) => Promise<void>) => Promise<void>,
): Promise<OpenTransaction> {
  return new Promise((opened, failed) => {
    let finish: (how: "commit" | "rollback") => void = () => {};
    const end = new Promise<"commit" | "rollback">((resolve) => {
      finish = resolve;
    });
    const ended = within(async (scope) => {
      const settled = async (how: "commit" | "rollback"): Promise<void> => {
        finish(how);
        await ended.catch((error) => {
          if (error !== undone) throw error;
        });
      };
      opened({ scope, commit: () => settled("commit"), rollback: () => settled("rollback") });
      if ((await end) === "rollback") throw undone;
    });
    ended.catch(failed); // when it could not even begin; later on it changes nothing
  });
}
