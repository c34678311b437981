import { sleep } from "../../base/wait.js";
import { isBusy } from "./faults.js";

/** How long to wait for another writer. SQLite's documentation recommends a busy_timeout of 5 s. */
const busyTimeoutMs = 5_000;
const longestWaitMs = 50;

/**
 * Tries again while another connection has the lock. SQLite's own `busy_timeout` would block the thread, and the other
 * connection may need that thread to commit.
 */
export async function whenFree<T>(work: () => T, signal?: AbortSignal): Promise<T> {
  let giveUpAt: number | undefined;
  for (let waitMs = 1; ; waitMs = Math.min(waitMs * 2, longestWaitMs)) {
    signal?.throwIfAborted();
    try {
      return work();
    } catch (error) {
      giveUpAt ??= performance.now() + busyTimeoutMs;
      if (!isBusy(error) || performance.now() > giveUpAt) throw error;
    }
    await sleep(waitMs * (0.5 + Math.random()));
  }
}
