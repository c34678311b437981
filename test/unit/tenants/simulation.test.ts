import { describe, expect, it } from "vitest";
import { periodMs, simulate, usualWorld } from "../../../bench/simulation/simulate.js";

/** In simulated time: nothing here depends on how fast the machine is. */
describe("the scheduler on simulated tenants", () => {
  it("FUN-07 10,000 tenants, one in a hundred with work and some that hang, are drained within one timer period by the fan-out", async () => {
    const outcome = await simulate(usualWorld);
    expect(outcome).toMatchObject({ left: 0, handled: 100 * usualWorld.messagesPerActive, invocations: 41 });
    expect(outcome.drainedMs).toBeLessThan(periodMs);
  });

  it("FUN-07 one function alone needs longer than a period for them, and hands on what it did not reach", async () => {
    const outcome = await simulate({ ...usualWorld, alone: true });
    expect(outcome.left).toBe(0);
    expect(outcome.drainedMs).toBeGreaterThan(periodMs);
    expect(outcome.invocations).toBeGreaterThan(1);
  });
});
