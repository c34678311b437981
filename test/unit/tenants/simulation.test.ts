import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { dollarsPerMonth } from "../../../bench/simulation/cost.js";
import { periodMs, simulate, usualWorld } from "../../../bench/simulation/simulate.js";

const guide = new URL("../../../docs/scale.md", import.meta.url);

/** A row of the guide's table: drained after s, invocations, workers at once, GB-s, $ a month. */
async function stated(row: string): Promise<readonly number[]> {
  const line = (await readFile(guide, "utf8")).split("\n").find((one) => one.startsWith(`| ${row} |`));
  return line!
    .split("|")
    .slice(2, -1)
    .map((cell) => Number.parseFloat(cell.trim() === "–" ? "0" : cell));
}

/** The same order of tenants each time. */
function sameOrder(): () => number {
  let state = 1;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** In simulated time: nothing here depends on how fast the machine is. */
describe("the scheduler on simulated tenants", () => {
  it("FUN-07 10,000 tenants, one in a hundred with work and some that hang, are drained within one timer period by the fan-out, at the stated cost", async () => {
    const outcome = await simulate(usualWorld, sameOrder());
    expect(outcome).toMatchObject({ left: 0, handled: 100 * usualWorld.messagesPerActive, invocations: 41 });
    expect(outcome.drainedMs).toBeLessThan(periodMs);
    const [, invocations, workers, gbSeconds, dollars] = await stated("10,000 tenants, fan-out");
    expect(outcome).toMatchObject({ invocations, workersAtOnce: workers });
    // Another order of tenants gives a few per cent more or less.
    expect(outcome.gbSeconds / gbSeconds!).toBeCloseTo(1, 1);
    expect(dollarsPerMonth(outcome, periodMs) / dollars!).toBeCloseTo(1, 1);
  });

  it("FUN-07 10,000 tenants with nothing to do are polled once each, at the stated cost", async () => {
    const outcome = await simulate({ ...usualWorld, active: 0, hanging: 0 });
    expect(outcome).toMatchObject({ left: 0, handled: 0, polls: 10_000 });
    const [, invocations, , gbSeconds, dollars] = await stated("… all idle");
    expect(outcome.invocations).toBe(invocations);
    expect(outcome.gbSeconds / gbSeconds!).toBeCloseTo(1, 1);
    expect(dollarsPerMonth(outcome, periodMs) / dollars!).toBeCloseTo(1, 1);
  });

  it("FUN-07 one function by itself needs longer than a period for them, and sends on what it did not reach", async () => {
    const outcome = await simulate({ ...usualWorld, alone: true });
    expect(outcome.left).toBe(0);
    expect(outcome.drainedMs).toBeGreaterThan(periodMs);
    expect(outcome.invocations).toBeGreaterThan(1);
  });
});
