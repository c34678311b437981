import type { Client, ClientConfig, Pool, PoolClient, PoolConfig } from "pg";
import { abortable } from "../../base/abortable.js";
import { memoisePromise } from "../../base/memoise-promise.js";
import { singleFlight } from "../../base/single-flight.js";
import { yieldToEventLoop } from "../../base/wait.js";
import { withinTime } from "../../base/within-time.js";
import { DriverMissingError } from "../../errors.js";
import type { SqlDriver } from "../driver.js";
import { closedError } from "../transaction-scope.js";
import { transactionSlots } from "../transaction-slots.js";
import { callersPool } from "./callers-pool.js";
import { cancelStatement } from "./cancel-statement.js";
import { isConnectionError } from "./faults.js";
import { pgClientQuery } from "./pg-query.js";
import { runTransaction } from "./transaction.js";
import { type WatchedPool, watchedPool } from "./watched-pool.js";

export interface PgClientOptions {
  readonly config: PoolConfig;
  readonly prepare: boolean;
  /** The caller's own, instead of one that is made with `config`. */
  readonly pool?: Pool;
}

interface OpenedPool {
  readonly pg: Awaited<ReturnType<typeof loadPg>>;
  readonly pool: WatchedPool;
}

/** A pool of connections. The driver is loaded and the pool made at first use. */
export function pgClient({ config, prepare, pool: given }: PgClientOptions): SqlDriver {
  let closed = false;
  let opening: Promise<OpenedPool> | undefined;
  const slots = transactionSlots(config.max ?? 10); // pg's own default

  const loadPool = memoisePromise(async () => {
    const pg = await loadPg();
    return { pg, pool: given === undefined ? watchedPool(pg, config) : callersPool(given) };
  });
  const openPool = async (): Promise<OpenedPool> => {
    if (closed) throw closedError();
    opening = loadPool();
    return opening;
  };
  /** Requests to cancel a statement that the server has not taken yet. */
  const cancelling = new Set<Promise<void>>();

  /** The first connection while `open` makes it: without waiting for it, the pool would make another one. */
  const connecting = singleFlight(async () => {
    const { pool } = await openPool();
    pool.release(await pool.connect());
  });

  const withClient = async <T>(
    work: (client: PoolClient) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> => {
    signal?.throwIfAborted();
    const { pg, pool } = await openPool();
    // A failure is ignored here: the call then makes its own attempt to connect.
    const first = connecting.current();
    if (first !== undefined) await abortable(first.catch(ignored), signal);
    const client = await pool.connect(signal);
    let failure: Error | undefined;
    try {
      return await abortable(work(client), signal);
    } catch (error) {
      if (signal?.aborted || isConnectionError(error)) failure = error as Error;
      if (signal?.aborted) {
        const cancelled = cancelStatement(client, pg.Connection, config.stream);
        cancelling.add(cancelled);
        void cancelled.then(() => cancelling.delete(cancelled));
      }
      throw error;
    } finally {
      pool.release(client, failure);
    }
  };

  return {
    query: (statement, params, { signal } = {}) =>
      withClient((client) => pgClientQuery(client, statement, params, prepare), signal),
    async transaction(work, { signal } = {}) {
      const release = await slots.take(signal);
      try {
        return await withClient((client) => runTransaction(client, prepare, work), signal);
      } finally {
        release();
      }
    },
    open: () => connecting.run(),
    async close() {
      closed = true;
      // Calls that wait for this connection ask the pool only after it. A server that says nothing is not waited for.
      const first = connecting.current();
      if (first !== undefined) await withinTime(longestOpenMs, first, closedError).catch(ignored);
      const opened = await opening?.catch(() => undefined);
      opening = undefined;
      // Calls that began before have asked the pool for a connection by the next tick of the event loop.
      await yieldToEventLoop();
      await opened?.pool.end();
      await Promise.all(cancelling);
    },
  };
}

/** How long `close` waits for a connection that `open` is making. */
const longestOpenMs = 2_000;

const ignored = (): void => {};

async function loadPg(): Promise<typeof import("pg")["default"]> {
  try {
    return (await import("pg")).default;
  } catch (error) {
    throw new DriverMissingError("pg", "PostgreSQL", error);
  }
}

/** A client outside of any pool, not connected yet: LISTEN belongs to one connection. */
export const pgListener = async (config: ClientConfig): Promise<Client> =>
  new (await loadPg()).Client(config);
