import { describe, expect, it } from "vitest";
import { singleFlight } from "../../src/base/concurrency.js";

describe("single flight", () => {
  it("calls at the same time run the work once, and a later call runs it again", async () => {
    let runs = 0;
    const flight = singleFlight(async () => ++runs);
    expect(flight.current()).toBeUndefined();
    const [one, other] = [flight.run(), flight.run()];
    expect(flight.current()).toBe(one);
    expect(await Promise.all([one, other])).toEqual([1, 1]);
    expect(flight.current()).toBeUndefined();
    expect(await flight.run()).toBe(2);
  });

  it("a failure reaches every caller, and is forgotten", async () => {
    let runs = 0;
    const flight = singleFlight(async () => {
      if (++runs === 1) throw new Error("down");
      return runs;
    });
    const outcomes = await Promise.allSettled([flight.run(), flight.run()]);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await flight.run()).toBe(2);
  });
});
