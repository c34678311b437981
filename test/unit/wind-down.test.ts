import { describe, expect, it } from "vitest";
import { claimMore } from "../../src/dispatch/claims.js";
import { windDown } from "../../src/dispatch/dispatch-run.js";
import { toSettling } from "../../src/dispatch/run-state.js";
import { checkHandlers, handlerReturned } from "../../src/dispatch/running-handlers.js";
import type { QueueMessage } from "../../src/index.js";
import { gate } from "../contract/support/gate.js";
import {
  held,
  message,
  recordingStore,
  running,
  type StoreCall,
  seqsOf,
  type TestStore,
  testRun,
  untilQuiet,
  waiting,
} from "../support/test-run.js";

const fullRunMs = 60_000;

const runWith = (instead: Partial<TestStore> = {}, remainingMs = 60_000) => {
  const calls: StoreCall[] = [];
  const errors: (string | null | undefined)[] = [];
  const store = recordingStore(calls, {
    async abandon(owner, items) {
      errors.push(...items.map(({ error }) => error));
      calls.push({ verb: "abandon", owner, seqs: seqsOf(items) });
      return { changed: items.map((item) => item.message), lost: [], dead: [] };
    },
    ...instead,
  });
  return { run: testRun({ store, timeoutMs: 20, remainingMs }), calls, errors };
};
const settled = (calls: readonly StoreCall[]) => calls.map(({ verb, seqs }) => `${verb} ${seqs.join()}`);

describe("winding down", () => {
  it("FUN-03 releases what waits", async () => {
    const { run, calls } = runWith();
    waiting(run, message(1));
    await windDown(run, fullRunMs);
    expect(settled(calls)).toEqual(["release 1"]);
    expect(run).toMatchObject({ hasUnfinished: true, counts: { released: 1 } });
  });

  it("MID-09 lets a handler finish, and settles it", async () => {
    const { run, calls } = runWith();
    const finishing = running(run, message(1));
    setImmediate(() => handlerReturned(run, finishing, { end: { kind: "ok" }, isAcked: false }));
    await windDown(run, fullRunMs);
    expect(settled(calls)).toEqual(["ack 1"]);
    expect(run.hasUnfinished).toBe(false);
  });

  it("IBX-075 gives a handler up whose own time-out ends meanwhile, with its time-out's reason", async () => {
    const { run, calls, errors } = runWith();
    const slow = running(run, message(1));
    slow.timeoutAt = slow.startedAt + 20;
    await windDown(run, fullRunMs); // it has 60 s left, and does not use them
    expect(settled(calls)).toEqual(["abandon 1"]);
    expect(errors).toEqual(["The handler did not finish within 20 ms."]);
    expect(slow.stopReason).toMatchObject({ name: "TimeoutError", message: "The handler's 20 ms are over." });
    expect(run.hasUnfinished).toBe(false);
  });

  it.each([
    ["ends the process of a worker that goes on", undefined, 1],
    ["lets a worker that stops settle first", AbortSignal.abort(), 0],
  ])("MID-09 a stuck handler in every slot %s", (_, signal, calls) => {
    let called = 0;
    const run = testRun({ concurrency: 1, onStuck: () => void called++, ...(signal && { signal }) });
    run.givenUp.set(held(run, message(1)), { stuckAt: 0, isReported: false });
    checkHandlers(run, performance.now());
    expect(run.counts.stuck).toBe(1);
    expect(called).toBe(calls);
  });

  it("FUN-03 gives a handler without a time-out up when the time is over", async () => {
    const { run, errors } = runWith({}, 100);
    const slow = running(run, message(1));
    await windDown(run, fullRunMs);
    expect(errors).toEqual(["The function's time was up before the handler finished."]);
    expect(slow.stopReason).toMatchObject({ message: "The function's time is up." });
    expect(run).toMatchObject({ hasUnfinished: true, counts: { abandoned: 1 } });
  });

  it("FUN-03 releases what a claim brings that was under way", async () => {
    const claimed = gate<readonly QueueMessage[]>();
    const { run, calls } = runWith({ claim: () => claimed.promise });
    claimMore(run);
    const ended = windDown(run, fullRunMs);
    claimed.open([message(1), message(2)]);
    await ended;
    expect(settled(calls)).toEqual(["release 1,2"]);
  });

  it("IBX-078 releases a message that was claimed again after it had been abandoned", async () => {
    const { run, calls } = runWith();
    const settling = held(run, message(1));
    const later = held(run, message(1, { attempt: 1 }));
    settling.later = later;
    const decision = { kind: "abandon", error: "", delayMs: 1, maxAttempts: 5, costsAttempt: true } as const;
    toSettling(run, settling, decision);
    await windDown(run, fullRunMs);
    expect(calls).toEqual([
      { verb: "abandon", owner: settling.lease.owner, seqs: [1] },
      { verb: "release", owner: later.lease.owner, seqs: [1] },
    ]);
    await untilQuiet(run);
  });

  it("FUN-03 returns though the last settlement does not", async () => {
    const { run } = runWith({ release: () => new Promise<never>(() => {}) }, 100);
    waiting(run, message(1));
    await windDown(run, fullRunMs);
    expect(run.settling.size).toBe(1);
  });
});
