import { memoisePromise } from "../../base/memoise-promise.js";
import type { Database } from "../../sql/dialect.js";
import type { ConnectionBudget, Pool } from "./connection-budget.js";
import { serverOf } from "./server-of.js";
import { callInTurn } from "./turn-calls.js";

export interface OnDemandOptions {
  readonly url: string;
  readonly budget: ConnectionBudget;
  readonly open: (url: string, options: { readonly maxConnections: number }) => Promise<Database> | Database;
}

export interface OnDemandDatabase extends Database {
  /** Waits for connection slots and keeps them until the returned function is called. */
  reserve(withinMs: number, signal?: AbortSignal): Promise<() => void>;
}

/**
 * A database whose pool is open only while the connection budget has slots for it. A call on a closed pool opens it
 * again. After `close` the pool is closed after each last use, so that a caller that still holds the database may finish.
 */
export async function onDemandDatabase({ url, budget, open }: OnDemandOptions): Promise<OnDemandDatabase> {
  const openPool = async () => open(url, { maxConnections: budget.perDatabase });
  const first = await openPool(); // makes no connection: the first query does
  const { dialect, id } = first;
  if (isInMemory(url)) return { ...first, reserve: async () => () => {} }; // closing it would delete it
  /** Undefined while the pool is closed. */
  let current: (() => Promise<Database>) | undefined = async () => first;

  const isFile = dialect.name === "sqlite";
  const pool: Pool = {
    server: isFile ? undefined : serverOf(url),
    size: isFile ? 1 : budget.perDatabase,
    async close() {
      const closing = current;
      current = undefined;
      await (await closing?.())?.close();
    },
  };

  const using = <T>(
    work: (db: Database, signal: AbortSignal | undefined) => Promise<T>,
    ownSignal?: AbortSignal,
  ): Promise<T> =>
    callInTurn(ownSignal, async (signal) => {
      await budget.acquire(pool, signal);
      try {
        current ??= memoisePromise(openPool);
        return await work(await current(), signal);
      } finally {
        budget.release(pool);
      }
    });

  return {
    dialect,
    id,
    driver: {
      query: (statement, params, options) =>
        using((db, signal) => db.driver.query(statement, params, { signal }), options?.signal),
      transaction: (work, options) =>
        using((db, signal) => db.driver.transaction(work, { signal }), options?.signal),
      close: async () => budget.retire(pool),
    },
    async reserve(withinMs, signal) {
      await budget.acquire(pool, signal, withinMs);
      return () => budget.release(pool);
    },
    exclusively: (schema, work) => using((db) => db.exclusively(schema, work)),
    close: async () => budget.retire(pool),
  };
}

const isInMemory = (url: string): boolean => /^(sqlite|file):.*:memory:/i.test(url);
