import type { RetryPolicy } from "../queue/retry-policy.js";

/** The wait before retry n, from 0 on: min(baseMs · 2^n, maxMs) + random(0, jitterMs). */
export interface RetryOptions {
  /** Retries after the first attempt, before the message is Failed: 5 by default. */
  readonly maxRetries: number;
  /** 2 s by default. */
  readonly baseMs: number;
  /** 5 min by default. */
  readonly maxMs: number;
  /** 500 ms by default. */
  readonly jitterMs: number;
}

export const defaultRetry: RetryOptions = {
  maxRetries: 5,
  baseMs: 2_000,
  maxMs: 5 * 60_000,
  jitterMs: 500,
};

/** More attempts than a retry policy takes: the service counts retries itself, because each message may have its own limit. */
const noLimit = 10_000;

export const mostRetries = noLimit - 1;

/** A retry policy counts from the first failed attempt on, so its base is half of ours. */
export const policyOf = ({ baseMs, maxMs, jitterMs }: RetryOptions): RetryPolicy => ({
  maxAttempts: noLimit,
  baseMs: baseMs / 2,
  factor: 2,
  maxMs,
  jitterMs,
});

/** The longest time from the first attempt to the last retry: the sum of all waits. */
export function retryWindowMs({ maxRetries, baseMs, maxMs, jitterMs }: RetryOptions): number {
  let sum = 0;
  for (let n = 0; n < maxRetries; n++) sum += Math.min(baseMs * 2 ** n, maxMs) + jitterMs;
  return sum;
}
