import { InvalidOperationError } from "../errors.js";
import { asTransaction, type SqlExecutor, type SqlQueryable } from "./driver.js";

/**
 * An executor that works until its transaction ends. Code that a failed `Promise.all` left running would otherwise write
 * outside of the transaction, or into the next one on the same connection.
 */
export function transactionScope(inner: SqlQueryable & { readonly pipelines?: boolean }): {
  readonly tx: SqlExecutor;
  end(): void;
} {
  let ended = false;
  return {
    tx: asTransaction({
      pipelines: inner.pipelines ?? false,
      async query(statement, params, options) {
        if (ended) throw endedError();
        return inner.query(statement, params, options);
      },
    }),
    end() {
      ended = true;
    },
  };
}

/** Of a caller's transaction it is not always known whether it ever began. */
export const endedError = (cause?: unknown): InvalidOperationError =>
  new InvalidOperationError(
    "This transaction has ended, or never began: no statement can run in it, and nothing was written.",
    cause === undefined ? {} : { cause },
  );

export const closedError = (): InvalidOperationError => new InvalidOperationError("The database was closed.");
