import type { Pool, PoolClient } from "pg";
import { sleep } from "../../base/wait.js";
import { withinTime } from "../../base/within-time.js";

export interface WatchedPool {
  readonly pool: Pool;
  /** Gives a client back. One whose connection was lost, or that comes with an error, is closed instead. */
  release(client: PoolClient, error?: Error): void;
  /** Closes the pool after its pending calls, and waits until the server has closed its connections. */
  end(): Promise<void>;
}

/** How long `end` waits for the server to close its connections. */
const longestEndMs = 2_000;

/** Listens to a new pool for connections that are made, lost and closed. */
export function watchPool(pool: Pool): WatchedPool {
  const open = new Set<PoolClient>();
  const losses = new WeakMap<PoolClient, Error>();
  pool.on("connect", (client) => {
    open.add(client);
    // The loss of a connection in use is an event of the client alone; its query rejects by itself.
    client.on("error", (error: Error) => losses.set(client, error));
  });
  pool.on("remove", (client) => void open.delete(client));
  // The pool drops an idle client whose connection was lost. Without a listener the event would end the process.
  pool.on("error", () => {});
  return {
    pool,
    release: (client, error) => client.release(losses.get(client) ?? error),
    async end() {
      // pool.end() would leave calls that wait for a connection waiting for ever.
      while (pool.waitingCount > 0) await sleep(1);
      await pool.end();
      await allClosed(pool, open);
    },
  };
}

/** pool.end() does not wait for the server, which may then count old connections and new ones together. */
async function allClosed(pool: Pool, open: ReadonlySet<PoolClient>): Promise<void> {
  if (open.size === 0) return;
  const closed = new Promise<void>((resolve) => {
    pool.on("remove", () => {
      if (open.size === 0) resolve();
    });
  });
  await withinTime(longestEndMs, closed, () => new Error("not closed in time")).catch(() => {});
}
