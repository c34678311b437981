import { PermanentFailure, retryAfter } from "../dispatch/settlement.js";
import { ArgumentRangeError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { BreakerPolicy } from "./publisher.js";

const defaults: BreakerPolicy = { failures: 5, openMs: 10_000, maxOpenMs: 300_000 };

export interface CircuitBreaker {
  /**
   * Runs a call. While the breaker is open it throws `retryAfter` instead. A call that fails after `signal` was aborted
   * is not counted: the abort ended it, not the destination.
   */
  run<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T>;
  readonly state: "closed" | "open" | "trial";
}

/**
 * Opens after several failures in a row, and then calls the destination no more, so that a broken destination costs the
 * others no time. After `openMs` one trial call is let through. When it succeeds, the breaker closes.
 */
export function circuitBreaker(
  destination: string,
  overrides: Partial<BreakerPolicy> = {},
  now: () => number = () => performance.now(),
): CircuitBreaker {
  refuseUnknown(overrides, Object.keys(defaults), "breaker");
  const policy = { ...defaults, ...overrides };
  requireDuration(policy.openMs, "breaker: openMs");
  requireDuration(policy.maxOpenMs, "breaker: maxOpenMs");
  if (!Number.isInteger(policy.failures) || policy.failures < 1)
    throw new ArgumentRangeError(
      `breaker: failures must be a whole number from 1 on, not ${String(policy.failures)}.`,
    );
  let failures = 0;
  let openings = 0;
  let openUntil: number | undefined;
  let trying = false;

  const waitMs = (): number => {
    if (openUntil === undefined) return 0;
    return trying ? policy.openMs : Math.max(0, openUntil - now());
  };
  const succeeded = (): void => {
    failures = 0;
    openings = 0;
    openUntil = undefined;
  };
  const failed = (): void => {
    failures++;
    if (openUntil === undefined && failures < policy.failures) return;
    openUntil = now() + Math.min(policy.maxOpenMs, policy.openMs * 2 ** openings);
    openings++;
  };

  return {
    get state() {
      return openUntil === undefined ? "closed" : waitMs() > 0 ? "open" : "trial";
    },
    async run(call, signal) {
      const wait = waitMs();
      if (wait > 0)
        throw retryAfter(
          wait,
          `${destination} has been failing. Its circuit breaker is open for ${Math.ceil(wait)} ms.`,
          {
            costsAttempt: false,
          },
        );
      const isTrial = openUntil !== undefined;
      if (isTrial) trying = true;
      try {
        const result = await call();
        if (isTrial || openUntil === undefined) succeeded();
        return result;
      } catch (error) {
        // A destination that refuses one message for good is working.
        if (error instanceof PermanentFailure) {
          if (isTrial) succeeded();
        } else if (!signal?.aborted && (isTrial || openUntil === undefined)) failed(); // not calls that began before it opened
        throw error;
      } finally {
        if (isTrial) trying = false;
      }
    },
  };
}

/** For `breaker: false`. */
export const noBreaker: CircuitBreaker = { state: "closed", run: (call) => call() };
