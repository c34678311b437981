import { describe, expect, it } from "vitest";
import { pollSchedule } from "../../src/dispatch/timing.js";

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

  it("ADD-09 the end of a wait makes a poll due, and the next wait is longer all the same", () => {
    const polls = schedule();
    polls.foundNothing(0);
    polls.endWait();
    expect(polls.untilNextMs(10)).toBe(0);
    polls.foundNothing(10);
    expect(polls.waitMs()).toBe(1_000);
  });

  it("ADD-09 a limit below the first wait does not shorten it", () => {
    const polls = pollSchedule({ pollMs: 1_000, idlePollMs: 10 });
    polls.foundNothing(0);
    polls.foundNothing(1_000);
    expect(polls.waitMs()).toBe(1_000);
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
