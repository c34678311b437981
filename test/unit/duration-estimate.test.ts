import { describe, expect, it } from "vitest";
import { durationEstimate } from "../../src/dispatch/timing.js";

describe("durationEstimate", () => {
  it("FUN-03 returns the expected duration until one is known", () => {
    const estimate = durationEstimate(100);
    expect(estimate.meanMs()).toBe(100);
    expect(estimate.quantileMs(0.9)).toBe(100);
    expect(estimate.fractionWithin(99)).toBe(0);
    expect(estimate.fractionWithin(100)).toBe(1);
  });

  it("FUN-03 returns the part of the known durations that would have ended in time", () => {
    const estimate = durationEstimate(1_000);
    for (const ms of [40, 10, 30, 20]) estimate.add(ms);
    expect(estimate.fractionWithin(9)).toBe(0);
    expect(estimate.fractionWithin(20)).toBe(0.5);
    expect(estimate.fractionWithin(35)).toBe(0.75);
    expect(estimate.fractionWithin(Number.POSITIVE_INFINITY)).toBe(1);
    expect(estimate.meanMs()).toBe(25);
    expect(estimate.quantileMs(0.5)).toBe(20);
    expect(estimate.quantileMs(1)).toBe(40);
  });

  it("FUN-03 follows a change: only the last durations count", () => {
    const estimate = durationEstimate(1);
    for (let index = 0; index < 100; index++) estimate.add(5_000);
    for (let index = 0; index < 32; index++) estimate.add(2);
    expect(estimate.quantileMs(1)).toBe(2);
  });

  it("FUN-03 can be made to forget", () => {
    const estimate = durationEstimate(7);
    estimate.add(5_000);
    estimate.forget();
    expect(estimate.meanMs()).toBe(7);
    estimate.add(3);
    expect(estimate.meanMs()).toBe(3);
  });
});
