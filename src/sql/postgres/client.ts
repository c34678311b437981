import type { Client, ClientConfig, Pool, PoolClient, PoolConfig } from "pg";
import { abortable } from "../../base/abortable.js";
import { memoisePromise } from "../../base/memoise-promise.js";
import { singleFlight } from "../../base/single-flight.js";
import { yieldToEventLoop } from "../../base/wait.js";
import { DriverMissingError } from "../../errors.js";
import type { SqlDriver } from "../driver.js";
import { closedError } from "../transaction-scope.js";
import { transactionSlots } from "../transaction-slots.js";
import { isConnectionError } from "./faults.js";
import { pgClientQuery } from "./pg-query.js";
import { runTransaction } from "./transaction.js";
import { type WatchedPool, watchPool } from "./watched-pool.js";

export interface PgClientOptions {
  readonly config: PoolConfig;
  readonly prepare: boolean;
}

/** A pool of connections. The driver is loaded and the pool made at first use. */
export function pgClient({ config, prepare }: PgClientOptions): SqlDriver {
  let closed = false;
  let opening: Promise<WatchedPool> | undefined;
  const slots = transactionSlots(config.max ?? 10); // pg's own default

  const loadPool = memoisePromise(async () => watchPool(new (await loadPg()).Pool(config)));
  const openPool = async (): Promise<WatchedPool> => {
    if (closed) throw closedError();
    opening = loadPool();
    return opening;
  };

  /** The first connection while `open` makes it: without waiting for it, the pool would make another one. */
  const connecting = singleFlight(async () => {
    const { pool } = await openPool();
    (await pool.connect()).release();
  });

  const withClient = async <T>(
    work: (client: PoolClient) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> => {
    signal?.throwIfAborted();
    const { pool, release } = await openPool();
    // A failure is ignored here: the call then makes its own attempt to connect.
    const first = connecting.current();
    if (first !== undefined) await abortable(first.catch(ignored), signal);
    const client = await abortable(pool.connect(), signal, { late: (unused) => unused.release() });
    let failure: Error | undefined;
    try {
      return await abortable(work(client), signal);
    } catch (error) {
      if (signal?.aborted || isConnectionError(error)) {
        failure = error as Error;
        // A pipelining client would wait for the running statement before it closes.
        Object.assign(client, { pipeline: false });
      }
      if (signal?.aborted) void cancel(pool, client);
      throw error;
    } finally {
      release(client, failure);
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
      await connecting.current()?.catch(ignored);
      const opened = await opening?.catch(() => undefined);
      opening = undefined;
      // Calls that began before have asked the pool for a connection by the next tick of the event loop.
      await yieldToEventLoop();
      await opened?.end();
    },
  };
}

const ignored = (): void => {};

/** A closed socket alone does not stop a statement that waits for a lock: it would still be committed later. */
async function cancel(pool: Pool, client: PoolClient): Promise<void> {
  const { processID } = client as unknown as { processID?: number };
  if (processID !== undefined) await pool.query("select pg_cancel_backend($1)", [processID]).catch(ignored);
}

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
