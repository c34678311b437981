import { describe, expect, it } from "vitest";
import { ArgumentRangeError, timeBudget } from "../../src/index.js";

describe("timeBudget", () => {
  it("FUN-03 counts down from what it was given, and ends at 0", () => {
    const budget = timeBudget(60_000);
    expect(budget.remainingMs()).toBeGreaterThan(0);
    expect(budget.remainingMs()).toBeLessThanOrEqual(60_000);
    expect(timeBudget(0).remainingMs()).toBe(0);
  });

  it("FUN-03 refuses a value that is not a time", () => {
    for (const wrong of [Number.NaN, -5, undefined, "60000", null, () => 60_000]) {
      expect(() => timeBudget(wrong as number), String(wrong)).toThrow(ArgumentRangeError);
    }
  });
});
