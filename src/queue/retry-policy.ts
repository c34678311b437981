import { ArgumentRangeError } from "../errors.js";

/**
 * How long a failed message waits, and how often it is tried. A policy is data, not a
 * function, because the database applies it too, to expired leases.
 */
export interface RetryPolicy {
  /** Attempts before the message is dead: at most 10,000, or `Infinity` to retry it for ever. */
  readonly maxAttempts: number;
  /** Delay of attempt n: min(baseMs · factor^n, maxMs) + random(0, jitterMs). */
  readonly baseMs: number;
  readonly factor: number;
  readonly maxMs: number;
  readonly jitterMs: number;
}

/** The largest limit of attempts. Who wants more wants `Infinity`. */
export const mostAttempts = 10_000;

/** 10 attempts, min(2^attempt s, 60 s) between them. */
export const defaultRetryPolicy: RetryPolicy = {
  maxAttempts: 10,
  baseMs: 1_000,
  factor: 2,
  maxMs: 60_000,
  jitterMs: 0,
};

/** The longest delay and lease: a year. A longer one is most likely given in the wrong unit. */
export const longestMs = 366 * 24 * 60 * 60 * 1000;

/** How long done messages are kept, unless somebody says otherwise: 30 days. */
export const usualRetentionMs = 30 * 24 * 60 * 60 * 1000;

export function retryPolicy(overrides: Partial<RetryPolicy> = {}): RetryPolicy {
  const policy = { ...defaultRetryPolicy, ...overrides };
  const problems: string[] = [];
  const check = (name: keyof RetryPolicy, least: number, most: number) => {
    const value = policy[name];
    const fits = Number.isFinite(value) && value >= least && value <= most;
    if (!fits) problems.push(`${name} must be from ${least} to ${most}, not ${value}`);
  };
  for (const name of Object.keys(overrides)) {
    if (!(name in defaultRetryPolicy)) problems.push(`${name} is not a setting of a retry policy`);
  }
  if (!isLimit(policy.maxAttempts, 1, mostAttempts))
    problems.push(`maxAttempts must be ${limitRule(1, mostAttempts)}, not ${policy.maxAttempts}`);
  check("baseMs", 1, longestMs);
  check("factor", 1, 100);
  check("maxMs", 1, longestMs);
  check("jitterMs", 0, longestMs);
  if (problems.length > 0) throw new ArgumentRangeError(`Retry policy: ${problems.join("; ")}.`);
  return policy;
}

/** A whole number within a range, or `Infinity` for no limit. */
export const isLimit = (value: unknown, least: number, most: number): boolean =>
  value === Number.POSITIVE_INFINITY ||
  (Number.isInteger(value) && (value as number) >= least && (value as number) <= most);

export const limitRule = (least: number, most: number): string =>
  `a whole number from ${least} to ${most}, or Infinity`;

/** The wait after `attempt` failed attempts (1 = the first has failed). */
export function backoffMs(policy: RetryPolicy, attempt: number, random: () => number = Math.random): number {
  const exponential = Math.min(policy.baseMs * policy.factor ** attempt, policy.maxMs);
  return Math.round(exponential + random() * policy.jitterMs);
}
