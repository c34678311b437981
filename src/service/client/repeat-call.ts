import { sleep } from "../../base/wait.js";
import { backoffMs, type RetryPolicy } from "../../queue/retry-policy.js";
import { withDeadline } from "../../queue/store-deadline.js";
import { InboxServiceError } from "./inbox-service-error.js";

const policy: RetryPolicy = { maxAttempts: 5, baseMs: 50, factor: 2, maxMs: 2_000, jitterMs: 100 };

export interface RepeatSettings {
  /** The longest time of one attempt. */
  readonly attemptMs: number;
  /** When the whole call has to end, by `performance.now()`. */
  readonly endsAt: number;
  /** The caller's, with the deadline of the whole call. */
  readonly signal: AbortSignal;
}

/**
 * Repeats a call of the service after faults that pass. All calls of the contract may be repeated: a try-begin because it
 * proposes its lease id, the others because the lease id says what they mean. A refusal (400, 401) is final.
 */
export async function repeatCall<T>(
  call: (signal: AbortSignal) => Promise<T>,
  { attemptMs, endsAt, signal }: RepeatSettings,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await withDeadline(attemptMs, "An attempt to call the inbox service", call, signal);
    } catch (error) {
      signal.throwIfAborted();
      const delayMs = delayBefore(attempt, error);
      // An answer after the deadline is of no use: the caller learns at once what happened.
      if (delayMs === undefined || performance.now() + delayMs >= endsAt) throw explained(error);
      await sleep(delayMs, signal);
    }
  }
}

/** Undefined when the call must not be repeated. */
function delayBefore(attempt: number, error: unknown): number | undefined {
  if (attempt >= policy.maxAttempts) return undefined;
  if (isTimeout(error)) return backoffMs(policy, attempt);
  if (!(error instanceof InboxServiceError) || !error.isTransient) return undefined;
  return Math.max(backoffMs(policy, attempt), error.retryAfterMs ?? 0);
}

const isTimeout = (error: unknown): error is Error => (error as Error | undefined)?.name === "TimeoutError";

const explained = (error: unknown): unknown =>
  isTimeout(error)
    ? new InboxServiceError("The inbox service did not answer in time.", { isTransient: true, cause: error })
    : error;
