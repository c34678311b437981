import { describe, expect, it } from "vitest";
import { changes, durationEstimate, lateness, pollSchedule, runTime } from "../../src/dispatch/timing.js";
import { ArgumentRangeError, createWorker, type QueueMessage, timeBudget } from "../../src/index.js";
import { changed, message, pass, useSimulatedTime } from "../support/scripted-run.js";

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

describe("changes", () => {
  it("keeps a change that came before the wait, once", async () => {
    const changed = changes();
    changed.notify();
    changed.notify();
    expect(await changed.next(60_000)).toBe(true);
    expect(await changed.next(1)).toBe(false);
  });

  it("waits for the next change, without an end if need be", async () => {
    const changed = changes();
    const next = changed.next(Number.POSITIVE_INFINITY);
    setImmediate(changed.notify);
    expect(await next).toBe(true);
  });

  it("does not wait when there is no time", async () => {
    expect(await changes().next(0)).toBe(false);
    expect(await changes().next(-1)).toBe(false);
  });

  it("lets the event loop run, even if there is always a change", async () => {
    const changed = changes();
    let ticks = 0;
    setImmediate(() => ticks++);
    changed.notify();
    await changed.next(60_000);
    expect(ticks).toBe(1);
  });
});

describe("durationEstimate", () => {
  it("FUN-03 returns the expected duration until one is known", () => {
    const estimate = durationEstimate(100);
    expect(estimate.meanMs()).toBe(100);
    expect(estimate.quantileMs(0.9)).toBe(100);
    expect(estimate.fractionWithin(99)).toBe(0);
    expect(estimate.fractionWithin(100)).toBe(1);
  });

  it("FUN-03 returns the fraction of the known durations that would have ended in time", () => {
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

const blockThread = (ms: number): void => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};

describe("lateness", () => {
  it("FUN-03 measures how long the thread was blocked, and halves it with every new run", async () => {
    const late = lateness();
    const stop = late.watch();
    blockThread(100);
    await expect.poll(late.worstMs).toBeGreaterThan(70);
    stop();
    const seen = late.worstMs();
    late.watch()();
    expect(late.worstMs()).toBe(seen / 2);
  });
});

describe("when an idle queue is polled again", () => {
  const schedule = () => pollSchedule({ pollMs: 500, idlePollMs: 3_000 });

  it("ADD-09 waits twice as long after each poll that found nothing, up to the limit", () => {
    const polls = schedule();
    const waits: number[] = [];
    for (let now = 0; waits.length < 5; now += waits.at(-1)!) {
      polls.foundNothing(now);
      waits.push(polls.untilNextMs(now));
    }
    expect(waits).toEqual([500, 1_000, 2_000, 3_000, 3_000]);
  });

  it.each(["foundMessages", "wake"] as const)("ADD-09 %s makes a poll due and starts over", (event) => {
    const polls = schedule();
    for (const now of [0, 500, 1_500]) polls.foundNothing(now);
    polls[event]();
    expect(polls.untilNextMs(1_600)).toBe(0);
    polls.foundNothing(1_600);
    expect(polls.untilNextMs(1_700)).toBe(400);
  });

  it("ADD-09 a limit below the first wait does not shorten it", () => {
    const polls = pollSchedule({ pollMs: 1_000, idlePollMs: 10 });
    polls.foundNothing(0);
    polls.foundNothing(1_000);
    expect(polls.untilNextMs(1_000)).toBe(1_000);
  });

  it("ADD-09 waits twice as long after each fault in a row; only a claim that works starts over", () => {
    const polls = schedule();
    const waitAt = (now: number): number => {
      polls.failed(now);
      polls.wake();
      return polls.untilRetryMs(now);
    };
    expect([0, 500, 1_500, 3_500].map(waitAt)).toEqual([500, 1_000, 2_000, 3_000]);
    polls.foundNothing(7_000);
    expect(waitAt(7_500)).toBe(500);
  });
});

describe("a worker", () => {
  useSimulatedTime();

  it("IBX-124 OBX-103 ADD-09 polls every 500 ms by default, and up to every 5 s while there is nothing to do", async () => {
    const polledAt: number[] = [];
    const claimed: QueueMessage[] = [];
    const handled: number[] = [];
    const all = async (_owner: string, settled: readonly QueueMessage[]) => changed(settled);
    const worker = createWorker({
      handlers: { t: ({ seq }) => void handled.push(seq) },
      store: {
        id: "s",
        async claim() {
          polledAt.push(performance.now());
          return claimed.splice(0);
        },
        ack: all,
        fail: all,
        release: all,
        renew: all,
        abandon: async () => changed([]),
        transaction: (work) => work(undefined),
        reapExpired: async () => ({ reaped: 0, dead: 0, more: false }),
      },
    });
    const waits = () => polledAt.slice(1).map((at, index) => at - polledAt[index]!);
    await pass(17_600);
    expect(waits()).toEqual([500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    claimed.push(message(1));
    await pass(12_500);
    expect(handled).toEqual([1]);
    // the poll after the message finds nothing, and the waits start again
    expect(waits().slice(6)).toEqual([5_000, 0, 500, 1_000, 2_000, 4_000]);
    await worker.stop();
  });
});

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
    { case: "the database answers fast", answers: often(1), reserve: 150 },
    { case: "the database takes a while", answers: often(60), reserve: 410 },
    { case: "the database is slow", answers: often(5_000), reserve: 2_000 },
    { case: "one answer among many was slow", answers: [900, ...often(1).slice(1)], reserve: 150 },
  ])("FUN-03 the reserve follows the store's answers: $case", ({ answers, reserve }) => {
    expect(reserveOf(60_000, answers)).toBe(reserve);
  });

  it("FUN-03 a learned reserve leaves half of a short run to the handlers", () => {
    expect(reserveOf(600, [])).toBe(300);
    expect(reserveOf(1_000, often(5_000))).toBe(500);
  });

  it("FUN-03 a reserve that was asked for is kept, however long the settlements take", () => {
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
