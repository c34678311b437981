import { describe, expect, it } from "vitest";
import { repeating, singleFlight } from "../../../src/base/async.js";

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

const aDay = 86_400_000;

/** A job whose runs are counted, and a promise of each number of them. */
function countedJob() {
  let runs = 0;
  return {
    job: async () => void runs++,
    runs: () => runs,
    until: (count: number) => expect.poll(() => runs).toBe(count),
  };
}

describe("repeating", () => {
  it("runs the job at once, and once more for each wake-up", async () => {
    const { job, runs, until } = countedJob();
    const repeated = repeating(aDay, job);
    await until(1);
    repeated.wake();
    await until(2);
    await repeated.stop();
    expect(runs()).toBe(2);
  });

  it("asks after each run how long the next one waits", async () => {
    const { job, runs, until } = countedJob();
    const waits = [0, 0, aDay];
    const repeated = repeating(() => waits[runs() - 1]!, job);
    await until(3);
    await repeated.stop();
    expect(runs()).toBe(3);
  });

  it("ends with the given signal, which also stops a run, and does not begin with one that has fired", async () => {
    const stop = new AbortController();
    const { job, runs, until } = countedJob();
    const ended: boolean[] = [];
    const repeated = repeating(
      0,
      async (signal) => {
        await job();
        if (runs() === 2) await new Promise((resolve) => signal.addEventListener("abort", resolve));
        ended.push(signal.aborted);
      },
      { signal: stop.signal },
    );
    await until(2);
    stop.abort();
    await repeated.stop();
    expect(ended).toEqual([false, true]);

    await repeating(0, job, { signal: stop.signal }).stop();
    expect(runs()).toBe(2);
  });
});
