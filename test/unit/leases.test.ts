import { describe, expect, it } from "vitest";
import { renewLeases } from "../../src/dispatch/claims.js";
import { type Lease, loseLease, toSettling } from "../../src/dispatch/run-state.js";
import { handlerReturned } from "../../src/dispatch/running-handlers.js";
import type { QueueMessage } from "../../src/index.js";
import { LeaseLostError } from "../../src/queue/leases.js";
import {
  held,
  lease,
  message,
  recordingStore,
  running,
  type StoreCall,
  seqsOf,
  type TestRunState,
  type TestStore,
  testRun,
  untilQuiet,
  waiting,
} from "../support/test-run.js";

const due = (): Lease => ({ ...lease(), renewAt: 0 });

const runWith = (instead?: Partial<TestStore>) => {
  const calls: StoreCall[] = [];
  const run = testRun({ store: recordingStore(calls, instead) });
  run.nextRenewalAt = 0;
  return { calls, run };
};

const renew = async (run: TestRunState): Promise<void> => {
  renewLeases(run, performance.now());
  await untilQuiet(run);
};

const settling = (run: TestRunState, seq: number, under: Lease) => {
  const settles = held(run, message(seq), under);
  toSettling(run, settles, { kind: "ack" });
  return settles;
};

describe("the renewal of leases", () => {
  it("FUN-03 renews what waits, runs and is being settled, with one call for each claim", async () => {
    const { run, calls } = runWith();
    const [one, two] = [due(), due()];
    waiting(run, message(1), one);
    running(run, message(2), one);
    settling(run, 3, two);
    await renew(run);
    expect(calls).toEqual([
      { verb: "renew", owner: one.owner, seqs: [1, 2] },
      { verb: "renew", owner: two.owner, seqs: [3] },
    ]);
    expect(one.renewAt).toBeGreaterThan(performance.now());
    expect(run.nextRenewalAt).toBe(Math.min(one.renewAt, two.renewAt));
  });

  it("FUN-03 renews neither a lease that is not due nor a lease that is lost", async () => {
    const { run, calls } = runWith();
    waiting(run, message(1), lease());
    loseLease(run, running(run, message(2), due()));
    await renew(run);
    expect(calls).toEqual([]);
  });

  it("IBX-078 of a message that was claimed again while it is being settled, the later lease is renewed", async () => {
    const { run, calls } = runWith();
    const later = due();
    settling(run, 1, due()).later = held(run, message(1), later);
    await renew(run);
    expect(calls).toEqual([{ verb: "renew", owner: later.owner, seqs: [1] }]);
    // and again a third of the lease later
    const inAWhile = later.renewAt + 1;
    renewLeases(run, inAWhile);
    await untilQuiet(run);
    expect(calls).toHaveLength(2);
  });

  it("FUN-03 a renewal that does not return is given up, and tried again before the lease ends", async () => {
    const { run } = runWith({ renew: () => new Promise<never>(() => {}) });
    const short: Lease = { ...due(), leaseMs: 60 };
    waiting(run, message(1), short);
    await renew(run);
    expect(seqsOf(run.waiting)).toEqual([1]);
    expect(run.nextRenewalAt).toBe(short.renewAt);
  });

  const allLost = {
    renew: async (_owner: string, messages: readonly QueueMessage[]) => ({
      changed: [],
      lost: messages,
      dead: [],
    }),
  };

  it("IBX-078 a waiting message whose lease is lost is dropped, and counted once", async () => {
    const { run } = runWith(allLost);
    const lost = waiting(run, message(1), due());
    await renew(run);
    loseLease(run, lost);
    expect(run.waiting).toEqual([]);
    expect(run.counts.lost).toBe(1);
  });

  it("IBX-078 a handler whose lease is lost is told to stop; it counts when it has ended", async () => {
    const { run } = runWith(allLost);
    const lost = running(run, message(1), due());
    await renew(run);
    expect(lost).toMatchObject({ isLost: true, stopReason: expect.any(LeaseLostError) });
    expect(run.running.get(1)).toBe(lost);
    expect(run.counts.lost).toBe(0);
  });

  it.each([
    ["is counted once as lost", false, { acked: 0, lost: 1 }],
    ["is acknowledged when its transaction was committed before the renewal", true, { acked: 1, lost: 0 }],
  ])("IBX-078 a handler that ends after its lease was lost %s", async (_, isAcked, counts) => {
    const { run } = runWith(allLost);
    const lost = running(run, message(1), due());
    await renew(run);
    handlerReturned(run, lost, { end: { kind: "ok" }, isAcked });
    expect(run.counts).toMatchObject({ ...counts, handled: 1 });
    expect([run.running.size, run.settling.size]).toEqual([0, 0]);
  });

  it("IBX-078 a message that is being settled is not lost by its renewal: its settlement tells", async () => {
    const { run } = runWith(allLost);
    const settles = settling(run, 1, due());
    await renew(run);
    expect(settles.isLost).toBe(false);
    expect(run.settling.get(1)).toBe(settles);
    expect(run.counts.lost).toBe(0);
  });

  it("IBX-078 a later lease that is lost is forgotten: the first settlement tells that the message is lost", async () => {
    const { run } = runWith(allLost);
    const settles = settling(run, 1, due());
    settles.later = held(run, message(1), due());
    await renew(run);
    expect(settles.later).toBeUndefined();
    expect(run.settling.get(1)).toBe(settles);
  });
});
