import { sleep } from "../base/wait.js";

/**
 * What a database error means for trying again.
 * - `rolledBack`: the server undid the work, after a deadlock for example.
 * - `unknown`: the connection was lost, and the work may have been committed. The work is repeated all the same: receive
 *   and enqueue find their own keys, and a settlement finds that its owner no longer holds the message.
 * - `permanent`: the work would fail again.
 */
export type Fault = "rolledBack" | "unknown" | "permanent";

export interface TransientRetry {
  readonly classify: (error: unknown) => Fault;
  readonly signal?: AbortSignal | undefined;
  readonly onRetry?: (error: unknown, retry: number) => void;
}

/** The waits before the 1st, 2nd … retry. With jitter, two calls that deadlocked do not meet again. */
const waitsMs = [20, 80, 250, 800];

/** Repeats `work`, which has just failed for the first time, while its faults are transient. */
export async function retryTransient<T>(
  failure: unknown,
  work: () => Promise<T>,
  { classify, signal, onRetry }: TransientRetry,
): Promise<T> {
  let error = failure;
  for (const [index, waitMs] of waitsMs.entries()) {
    if (signal?.aborted || classify(error) === "permanent") throw error;
    onRetry?.(error, index + 1);
    await sleep(waitMs * (0.5 + Math.random()), signal);
    try {
      return await work();
    } catch (again) {
      error = again;
    }
  }
  throw error;
}
