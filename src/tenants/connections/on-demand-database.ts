import type { Database } from "../../sql/dialect.js";
import { ask, type SqlDriver } from "../../sql/driver.js";
import type { ConnectionBudget, Pool } from "./connection-budget.js";
import { serverOf } from "./server-of.js";

export interface OnDemandOptions {
  readonly url: string;
  readonly budget: ConnectionBudget;
  readonly open: (url: string, options: { readonly maxConnections: number }) => Promise<Database> | Database;
}

export interface OnDemandDatabase extends Database {
  /** Waits for a place, which is then kept until the answer is called: the time of waiting is not the database's fault. */
  reserve(withinMs: number): Promise<() => void>;
  /** The same where there is a place, and the pool is open already: nothing has to be waited for. */
  reserveNow(): (() => void) | undefined;
}

/**
 * A database whose pool is open only while the budget has a place for it. Nobody who holds it notices: what is called
 * on a closed one opens it again. `close` says that nobody new will ask for it; who still has it may go on.
 */
export async function onDemandDatabase({ url, budget, open }: OnDemandOptions): Promise<OnDemandDatabase> {
  const openOne = () => open(url, { maxConnections: budget.perDatabase });
  const first = await openOne(); // without a connection: that comes with its first use
  const { dialect, id } = first;
  if (isInMemory(url)) return { ...first, reserve: async () => keepIt, reserveNow: () => keepIt };
  let current: Promise<Database> | undefined = Promise.resolve(first);
  /** The same once it is there: a look at a tenant need not wait for the promise. */
  let opened: Database | undefined = first;

  const isFile = dialect.name === "sqlite";
  const pool: Pool = {
    server: isFile ? undefined : serverOf(url),
    size: isFile ? 1 : budget.perDatabase,
    async close() {
      const closing = current;
      current = undefined;
      opened = undefined;
      await (await closing)?.close();
    },
  };

  const using = async <T>(work: (db: Database) => Promise<T>, signal?: AbortSignal): Promise<T> => {
    await budget.acquire(pool, signal);
    try {
      current ??= Promise.resolve(openOne()).catch((error: unknown) => {
        current = undefined;
        throw error;
      });
      opened = await current;
      return await work(opened);
    } finally {
      budget.release(pool);
    }
  };

  const query: SqlDriver["query"] = (statement, params, options) =>
    using((db) => db.driver.query(statement, params, options), options?.signal);
  const release = (): void => budget.release(pool);

  return {
    dialect,
    id,
    driver: {
      query,
      // Without a place of its own where it is open: whoever asks has reserved one.
      ask: (question) => ask(opened?.driver ?? { query }, question),
      transaction: (work, options) => using((db) => db.driver.transaction(work, options), options?.signal),
      close: async () => budget.retire(pool),
    },
    async reserve(withinMs) {
      await budget.acquire(pool, undefined, withinMs);
      return release;
    },
    reserveNow: () => (opened !== undefined && budget.acquireNow(pool) ? release : undefined),
    exclusively: (schema, work) => using((db) => db.exclusively(schema, work)),
    close: async () => budget.retire(pool),
  };
}

/** Closing it would delete it. */
const keepIt = (): void => {};

const isInMemory = (url: string): boolean => /^(sqlite|file):.*:memory:/i.test(url);
