import { abortAfter } from "../base/abort-after.js";
import { InvalidOperationError } from "../errors.js";
import { commitIfHandled } from "../middleware/commit-if-handled.js";
import { requireScope } from "../middleware/current-transaction.js";
import { transaction } from "../middleware/transaction-middleware.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { ServiceParts } from "./service-parts.js";

/** What a handler of a message gets from the service. */
export interface Handling {
  readonly tx: SqlExecutor;
  readonly signal: AbortSignal;
}

/**
 * Runs a handler in a transaction on the inbox's database and commits when the outcome is `handled`. A handler whose time
 * is up is rolled back: it must not keep a connection, or SQLite's only writer. `currentTransaction` and `send` join it.
 */
export async function timedTransaction<Outcome extends { readonly kind: string }>(
  { inboxDb, settings: { handlerTimeoutMs }, sentIn, wake }: ServiceParts,
  work: (handling: Handling) => Promise<Outcome>,
): Promise<Outcome> {
  let used: SqlExecutor | undefined;
  const outcome = await abortAfter(
    handlerTimeoutMs,
    (signal) => {
      const within = transaction(inboxDb, {
        begin: (run) => inboxDb.driver.transaction((tx) => run(tx), { signal }),
      });
      return commitIfHandled(within, () => {
        used = requireScope("inbox").tx;
        return work({ tx: used, signal });
      });
    },
    () => new InvalidOperationError(`The handler did not finish within ${handlerTimeoutMs} ms.`),
  );
  if (outcome.kind === "handled" && used !== undefined && sentIn.has(used)) wake();
  return outcome;
}
