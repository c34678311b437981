import { describe, expect, it } from "vitest";
import { durationEstimate, runTime } from "../../src/dispatch/timing.js";

const budgetOf = (ms: number) => ({ signal: new AbortController().signal, remainingMs: () => ms });
const punctual = { worstMs: () => 0 };
const reserveOf = (budgetMs: number, answersMs: readonly number[], askedMs?: number): number => {
  const time = runTime(budgetOf(budgetMs), askedMs, durationEstimate(75), punctual);
  for (const ms of answersMs) time.storeCallTook(ms);
  return budgetMs - time.usableMs();
};
const often = (ms: number) => Array.from({ length: 32 }, () => ms);

describe("runTime", () => {
  it.each([
    { case: "nothing is known yet", answers: [], reserve: 500 },
    { case: "the database is near", answers: often(1), reserve: 150 },
    { case: "the database is far", answers: often(60), reserve: 410 },
    { case: "the database is slow", answers: often(5_000), reserve: 2_000 },
    { case: "one answer among many was slow", answers: [900, ...often(1).slice(1)], reserve: 150 },
  ])("FUN-03 the reserve follows the store's answers: $case", ({ answers, reserve }) => {
    expect(reserveOf(60_000, answers)).toBe(reserve);
  });

  it("FUN-03 a learned reserve leaves half of a short run to the handlers", () => {
    expect(reserveOf(600, [])).toBe(300);
    expect(reserveOf(1_000, often(5_000))).toBe(500);
  });

  it("FUN-03 a reserve that was asked for is kept, whatever the settlements take", () => {
    expect(reserveOf(600, often(5_000), 590)).toBe(590);
    expect(reserveOf(60_000, often(1), 10)).toBe(10);
  });

  it("FUN-03 handlers are given up, and the run returns, while there is still time", () => {
    const time = runTime(budgetOf(10_000), 1_000, durationEstimate(75), punctual);
    expect(time.usableMs()).toBe(9_000);
    expect(time.untilGivenUpMs()).toBe(9_475);
    expect(time.untilReturnMs()).toBe(9_950);
  });

  it("FUN-03 on a machine whose timers fire late the reserve is larger", () => {
    const time = runTime(budgetOf(10_000), undefined, durationEstimate(10), { worstMs: () => 120 });
    expect(10_000 - time.usableMs()).toBe(240 + 100);
    expect(10_000 - time.untilReturnMs()).toBe(170);
  });

  it("FUN-03 a budget without an end has no end", () => {
    const time = runTime(budgetOf(Number.POSITIVE_INFINITY), undefined, durationEstimate(75), punctual);
    time.storeCallTook(20);
    expect(time.usableMs()).toBe(Number.POSITIVE_INFINITY);
  });
});
