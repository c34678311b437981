import type { PoolClient } from "pg";
import { InvalidOperationError } from "../../errors.js";
import type { SqlExecutor } from "../driver.js";
import { endedError, transactionScope } from "../transaction-scope.js";
import { pgClientQuery } from "./pg-query.js";

/**
 * Runs `work` in a transaction on the client. BEGIN is sent together with the first statement: one round trip less where
 * pg pipelines, and none for a transaction without statements.
 */
export async function runTransaction<T>(
  client: PoolClient,
  prepare: boolean,
  work: (tx: SqlExecutor) => Promise<T>,
): Promise<T> {
  let begun = false;
  const scope = transactionScope({
    // Only a pipelining client sends every statement at once. Otherwise a statement that waits behind a failed one could
    // be dropped, and the rest committed without it.
    pipelines: client.pipeline === true,
    async query(statement, params) {
      if (begun && isOutside(client)) throw endedError();
      const begin = begun ? undefined : client.query("begin");
      begun = true;
      const [rows] = await Promise.all([pgClientQuery(client, statement, params, prepare), begin]);
      return rows;
    },
  });
  try {
    const result = await work(scope.tx);
    scope.end();
    if (begun) await commit(client);
    return result;
  } catch (error) {
    scope.end();
    if (begun) await client.query("rollback").catch((failure: Error) => client.emit("error", failure));
    throw error;
  }
}

async function commit(client: PoolClient): Promise<void> {
  // After a failed statement the server answers COMMIT with ROLLBACK and reports no error.
  const { command } = await client.query("commit");
  if (command !== "COMMIT") {
    throw new InvalidOperationError("The transaction was rolled back, because a statement in it had failed.");
  }
}

/** What newer versions of pg know of their connection. */
interface TransactionStatus {
  /** No statement is under way. */
  readonly readyForQuery?: boolean;
  getTransactionStatus?(): string | null;
}

/** No transaction is open. A `begin` that is still under way counts as open. */
export function isOutside(client: object): boolean {
  const { readyForQuery } = client as TransactionStatus;
  return readyForQuery === true && (client as TransactionStatus).getTransactionStatus?.() === "I";
}
