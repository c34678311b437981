import { sleep } from "../../base/wait.js";
import { InvalidOperationError } from "../../errors.js";
import { isResuming } from "./faults.js";

export type Wait = (ms: number, signal?: AbortSignal) => Promise<void>;

const firstWaitMs = 250;
const longestWaitMs = 5_000;
/** A serverless database of Azure SQL resumes in up to a minute. */
const longestResumeMs = 90_000;

/**
 * Repeats work that needs a login while the database resumes from its pause. The login starts the resume, and fails; nothing
 * has been sent then. The call's signal ends the wait before its limit does.
 */
export async function whenResumed<T>(
  work: () => Promise<T>,
  signal: AbortSignal | undefined,
  wait: Wait = sleep,
): Promise<T> {
  let waitMs = firstWaitMs;
  for (let waitedMs = 0; ; waitedMs += waitMs, waitMs = Math.min(2 * waitMs, longestWaitMs)) {
    try {
      return await work();
    } catch (error) {
      if (!isResuming(error)) throw error;
      if (waitedMs >= longestResumeMs) throw notResumed(error);
    }
    await wait(waitMs, signal);
  }
}

const notResumed = (cause: unknown) =>
  new InvalidOperationError(
    `The database was not available for ${longestResumeMs / 1000} seconds of waiting. It may be paused and not resume, or be moving to another node.`,
    { cause },
  );
