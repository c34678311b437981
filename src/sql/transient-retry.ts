import { sleep } from "../base/wait.js";

/**
 * What a database error means for trying again.
 * - `rolledBack`: the server undid the work (a deadlock, say): any call may be repeated.
 * - `unknown`: the connection was lost and the work may have been committed: only a call
 *   whose repetition changes nothing may be repeated.
 * - `permanent`: repeating it would fail again.
 */
export type Fault = "rolledBack" | "unknown" | "permanent";

export interface TransientRetry {
  readonly classify: (error: unknown) => Fault;
  readonly repeatable: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly onRetry?: (error: unknown, retry: number) => void;
}

/** Waits before the 1st, 2nd … retry; with jitter, so that two who deadlocked do not meet again. */
const waitsMs = [20, 80, 250, 800];

export async function withTransientRetry<T>(work: () => Promise<T>, options: TransientRetry): Promise<T> {
  try {
    return await work();
  } catch (error) {
    return retryTransient(error, work, options);
  }
}

/** For `work` that has just failed for the first time. */
export async function retryTransient<T>(
  failure: unknown,
  work: () => Promise<T>,
  options: TransientRetry,
): Promise<T> {
  let error = failure;
  for (let retry = 0; ; retry++) {
    const wait = waitsMs[retry];
    const fault = options.signal?.aborted ? "permanent" : options.classify(error);
    const mayRepeat = fault === "rolledBack" || (fault === "unknown" && options.repeatable);
    if (wait === undefined || !mayRepeat) throw error;
    options.onRetry?.(error, retry + 1);
    await sleep(wait * (0.5 + Math.random()), options.signal);
    try {
      return await work();
    } catch (again) {
      error = again;
    }
  }
}
