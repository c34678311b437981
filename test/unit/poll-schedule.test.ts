import { describe, expect, it } from "vitest";
import { pollSchedule } from "../../src/dispatch/timing.js";
import { createDispatcher, createWorker, type QueueMessage } from "../../src/index.js";
import { changed, message, pass, useSimulatedTime } from "../support/scripted-run.js";

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
      dispatcher: createDispatcher<QueueMessage>({ handlers: { t: ({ seq }) => handled.push(seq) } }),
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
