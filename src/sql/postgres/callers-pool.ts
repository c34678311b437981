import type { ClientBase, Pool } from "pg";
import { abortable } from "../../base/abortable.js";
import { sleep } from "../../base/wait.js";
import type { WatchedPool } from "./watched-pool.js";

/** How long `end` waits for calls under way. */
const longestCallsMs = 5_000;

/** A pool of the caller's. Connections are borrowed from it; it is not closed. */
export function callersPool(pool: Pool): WatchedPool {
  /** The connections in use, each with a function that stops listening and returns the error that it was lost by. */
  const borrowed = new Map<ClientBase, () => Error | undefined>();
  return {
    async connect(signal) {
      const client = await abortable(pool.connect(), signal, { late: (unused) => unused.release() });
      borrowed.set(client, noteLoss(client));
      return client;
    },
    release(client, error) {
      const lost = borrowed.get(client)?.();
      borrowed.delete(client);
      client.release(lost ?? error);
    },
    async end() {
      const until = performance.now() + longestCallsMs;
      while (borrowed.size > 0 && performance.now() < until) await sleep(1);
    },
  };
}

/** The loss of a connection in use is an event of the client alone. Unheard, it would end the process. */
function noteLoss(client: ClientBase): () => Error | undefined {
  let lost: Error | undefined;
  const note = (error: Error): void => {
    lost = error;
  };
  client.on("error", note);
  return () => {
    client.off("error", note);
    return lost;
  };
}
