import { describe, expect, it } from "vitest";
import { ArgumentRangeError } from "../../src/errors.js";
import {
  backoffMs,
  defaultRetryPolicy,
  longestMs,
  type RetryPolicy,
  retryPolicy,
} from "../../src/queue/retry-policy.js";

const seconds = (...values: number[]) => values.map((value) => value * 1_000);
const waits = (policy: RetryPolicy, attempts: number, random = () => 0) =>
  Array.from({ length: attempts }, (_, index) => backoffMs(policy, index + 1, random));

describe("retry policy", () => {
  it("IBX-080 IBX-081 OBX-061 OBX-062 waits min(2^attempt s, 60 s) by default", () => {
    expect(waits(retryPolicy(), 10)).toEqual(seconds(2, 4, 8, 16, 32, 60, 60, 60, 60, 60));
  });

  it("IBX-084 OBX-065 allows ten attempts by default, without jitter", () => {
    expect(retryPolicy()).toEqual({ maxAttempts: 10, baseMs: 1_000, factor: 2, maxMs: 60_000, jitterMs: 0 });
    expect(retryPolicy()).toEqual(defaultRetryPolicy);
  });

  it.each([
    { policy: { baseMs: 100, factor: 3, maxMs: 5_000 }, expected: [300, 900, 2_700, 5_000, 5_000] },
    { policy: { baseMs: 5_000, maxMs: 1_000 }, expected: [1_000, 1_000, 1_000, 1_000, 1_000] },
    { policy: { baseMs: 333, factor: 1.5, maxMs: 100_000 }, expected: [500, 749, 1_124, 1_686, 2_529] },
  ])("IBX-082 OBX-063 is customizable: $policy", ({ policy, expected }) => {
    expect(waits(retryPolicy(policy), 5)).toEqual(expected);
  });

  it("IBX-080 OBX-061 stays finite and capped for any number of attempts", () => {
    const policy = retryPolicy({ factor: 100, maxAttempts: Number.POSITIVE_INFINITY });
    for (const attempt of [64, 1_000, 1_000_000_000])
      expect(backoffMs(policy, attempt, () => 0)).toBe(60_000);
  });

  it("IBX-082 OBX-063 jitter adds from none to all of itself, on top of the cap too", () => {
    const policy = retryPolicy({ jitterMs: 500 });
    expect(waits(policy, 7, () => 0)).toEqual(seconds(2, 4, 8, 16, 32, 60, 60));
    expect(waits(policy, 3, () => 0.5)).toEqual([2_250, 4_250, 8_250]);
    expect(backoffMs(policy, 7, () => 0.999_999)).toBe(60_500);
    for (let n = 0; n < 100; n++) {
      const wait = backoffMs(policy, 1);
      expect(wait).toBeGreaterThanOrEqual(2_000);
      expect(wait).toBeLessThanOrEqual(2_500);
      expect(Number.isInteger(wait)).toBe(true);
    }
  });

  it("IBX-082 OBX-063 names every problem in one error", () => {
    const wrong = { maxAttempts: 0, baseMs: -1, factor: 0.5, maxMs: Number.NaN, jitterMs: -1, retries: 3 };
    const make = () => retryPolicy(wrong as Partial<RetryPolicy>);
    expect(make).toThrow(ArgumentRangeError);
    for (const name of Object.keys(wrong)) expect(make).toThrow(new RegExp(name));
  });

  it.each([
    { maxAttempts: 0 },
    { maxAttempts: 1.5 },
    { maxAttempts: 10_001 },
    { maxAttempts: Number.NaN },
    { maxAttempts: Number.NEGATIVE_INFINITY },
    { maxAttempts: "3" as unknown as number },
    { baseMs: 0 },
    { baseMs: longestMs + 1 },
    { factor: 0.99 },
    { factor: 101 },
    { maxMs: 0 },
    { maxMs: Number.POSITIVE_INFINITY },
    { jitterMs: -0.1 },
    { jitterMs: longestMs + 1 },
  ])("IBX-082 OBX-063 refuses %o", (overrides) => {
    expect(() => retryPolicy(overrides)).toThrow(ArgumentRangeError);
    expect(() => retryPolicy(overrides)).toThrow(Object.keys(overrides)[0]!);
  });

  it.each([
    { maxAttempts: 1, baseMs: 1, factor: 1, maxMs: 1, jitterMs: 0 },
    { maxAttempts: Number.POSITIVE_INFINITY, baseMs: 1, factor: 1, maxMs: 1, jitterMs: 0 },
    { maxAttempts: 10_000, baseMs: longestMs, factor: 100, maxMs: longestMs, jitterMs: longestMs },
  ])("IBX-082 OBX-063 accepts the limits: %o", (policy) => {
    expect(retryPolicy(policy)).toEqual(policy);
  });
});
