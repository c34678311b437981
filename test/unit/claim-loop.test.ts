import { describe, expect, it } from "vitest";
import { claimMore, renewLeases } from "../../src/dispatch/claims.js";
import { expectClaimable, toSettling } from "../../src/dispatch/run-state.js";
import { startWaiting } from "../../src/dispatch/running-handlers.js";
import type { QueueMessage } from "../../src/index.js";
import { LeaseLostError } from "../../src/queue/leases.js";
import {
  held,
  message,
  recordingStore,
  running,
  type StoreCall,
  seqsOf,
  suspect,
  type TestRunOptions,
  type TestRunState,
  testRun,
  untilQuiet,
  waiting,
} from "../support/test-run.js";

interface Case {
  readonly name: string;
  readonly options?: TestRunOptions;
  readonly state?: (run: TestRunState) => void;
  /** The size of the claim; 0: no claim. */
  readonly claims: number;
}

const never = () => new Promise<never>(() => {});
const manyWaiting = (count: number, topic: string) => (run: TestRunState) => {
  for (let seq = 1; seq <= count; seq++) waiting(run, message(seq, { topic }));
};
const manySettling = (count: number) => (run: TestRunState) => {
  for (let seq = 1; seq <= count; seq++) toSettling(run, held(run, message(seq)), { kind: "ack" });
};
const handlers = { t: never, single: { handle: never, concurrency: 1 } };

/** The batch has 50 messages, and 10 handlers may run at once, where a case does not say otherwise. */
const cases: readonly Case[] = [
  { name: "claims a batch when it holds nothing", claims: 50 },
  {
    name: "claims a batch in a worker without handlers, whose time does not end",
    options: { handlers: {}, remainingMs: Number.POSITIVE_INFINITY },
    claims: 50,
  },
  { name: "claims while handlers run", state: (run) => running(run, message(1)), claims: 50 },
  {
    name: "claims beside handlers that fill all slots, so that the next messages are there",
    options: { concurrency: 1, expectedHandlerMs: 10 },
    state: (run) => running(run, message(1)),
    claims: 50,
  },
  {
    name: "does not claim while no slot becomes free: another worker may have one",
    options: { concurrency: 1 },
    state(run) {
      running(run, message(1));
      run.lastStartAt -= 1_000;
    },
    claims: 0,
  },
  {
    name: "claims although no handler was started for long, if a slot is free",
    options: { concurrency: 2 },
    state(run) {
      running(run, message(1));
      run.lastStartAt -= 1_000;
    },
    claims: 20,
  },
  {
    name: "claims no more than it can start within a second",
    options: { expectedHandlerMs: 500 },
    claims: 20,
  },
  {
    name: "claims while fewer startable messages wait than there are slots",
    state: manyWaiting(9, "t"),
    claims: 50,
  },
  {
    name: "does not claim while as many startable messages wait as there are slots",
    state: manyWaiting(10, "t"),
    claims: 0,
  },
  {
    name: "claims others while less than a batch waits for a topic's limit",
    options: { handlers, batchSize: 5 },
    state(run) {
      running(run, message(99, { topic: "single" }));
      manyWaiting(4, "single")(run);
    },
    claims: 5,
  },
  {
    name: "does not claim while a whole batch waits for a topic's limit",
    options: { handlers, batchSize: 5 },
    state(run) {
      running(run, message(99, { topic: "single" }));
      manyWaiting(5, "single")(run);
    },
    claims: 0,
  },
  {
    name: "claims while fewer than four batches are being settled",
    options: { batchSize: 5 },
    state: manySettling(19),
    claims: 5,
  },
  {
    name: "does not claim while four batches are being settled: their results may be lost",
    options: { batchSize: 5 },
    state: manySettling(20),
    claims: 0,
  },
  {
    name: "does not claim twice at once",
    state(run) {
      run.isClaiming = true;
    },
    claims: 0,
  },
  {
    name: "does not claim from a drained queue before its next poll",
    state(run) {
      run.isDrained = true;
      run.polls.foundNothing(performance.now());
    },
    claims: 0,
  },
  {
    name: "polls a drained queue when a poll is due",
    state(run) {
      run.isDrained = true;
      run.polls.foundNothing(performance.now() - 60_000);
    },
    claims: 50,
  },
  {
    name: "polls a drained queue after a wake-up",
    state(run) {
      run.isDrained = true;
      run.polls.foundNothing(performance.now());
      expectClaimable(run);
    },
    claims: 50,
  },
  { name: "does not claim while a suspect waits", state: (run) => waiting(run, suspect(1)), claims: 0 },
  { name: "does not claim while a suspect runs", state: (run) => running(run, suspect(1)), claims: 0 },
  {
    name: "does not claim after a fault",
    state(run) {
      run.fault = new Error("the database is away");
    },
    claims: 0,
  },
  {
    name: "does not claim after the run was told to stop",
    options: { signal: AbortSignal.abort() },
    claims: 0,
  },
  { name: "does not claim in the reserve", options: { remainingMs: 100 }, claims: 0 },
  {
    name: "tries a first claim though the expected handler does not fit",
    options: { remainingMs: 150 },
    claims: 10,
  },
  {
    name: "does not claim again what could not be handled",
    options: { remainingMs: 150 },
    state(run) {
      run.counts.claimed = 1;
    },
    claims: 0,
  },
  {
    name: "claims no more than fits into the time, in rounds of all slots",
    options: { remainingMs: 350, expectedHandlerMs: 100 },
    claims: 30,
  },
  {
    name: "claims at least one round",
    options: { remainingMs: 2_100, expectedHandlerMs: 60_000, concurrency: 3 },
    claims: 3,
  },
];

describe("the claim loop", () => {
  it.each(cases)("FUN-03 $name", async ({ options, state, claims }) => {
    const sizes: (number | undefined)[] = [];
    const store = recordingStore([], {
      async claim({ batchSize }) {
        sizes.push(batchSize);
        return [];
      },
    });
    const run = testRun({ ...options, store });
    state?.(run);
    claimMore(run);
    expect(sizes).toEqual(claims === 0 ? [] : [claims]);
  });

  const claiming = (messages: readonly QueueMessage[], options: TestRunOptions = {}) => {
    const calls: StoreCall[] = [];
    const owners: string[] = [];
    const store = recordingStore(calls, {
      async claim({ owner }) {
        owners.push(owner);
        return messages;
      },
    });
    return { run: testRun({ store, ...options }), calls, owners };
  };
  const claim = async (run: TestRunState) => {
    claimMore(run);
    await untilQuiet(run);
  };

  it("FUN-03 claimed messages wait under a lease of this claim, and are counted", async () => {
    const { run, owners } = claiming([message(1), message(2)]);
    await claim(run);
    expect(seqsOf(run.waiting)).toEqual([1, 2]);
    expect(run.waiting.map(({ lease }) => lease.owner)).toEqual([owners[0], owners[0]]);
    expect(run).toMatchObject({ isDrained: false, counts: { claimed: 2 } });
  });

  it("ADD-12 a topic with a longer lease is renewed at once", async () => {
    const { run } = claiming([message(1), message(2, { topic: "long" })], {
      handlers: { t: never, long: { handle: never, leaseMs: 90_000 } },
    });
    await claim(run);
    expect(run.waiting.map(({ lease }) => lease.leaseMs)).toEqual([30_000, 90_000]);
    expect(run.nextRenewalAt).toBe(0);
  });

  it("IBX-078 a message that is claimed again while it waits is held once, under the new lease", async () => {
    const { run, owners } = claiming([message(1)]);
    waiting(run, message(1));
    waiting(run, message(2));
    await claim(run);
    expect(seqsOf(run.waiting)).toEqual([2, 1]);
    expect(run.waiting[1]!.lease.owner).toBe(owners[0]);
  });

  it("IBX-078 a message that is claimed again while its handler runs waits until the handler has stopped", async () => {
    const { run } = claiming([message(1)]);
    const first = running(run, message(1));
    await claim(run);
    expect(first).toMatchObject({ isLost: true, stopReason: expect.any(LeaseLostError) });
    startWaiting(run);
    expect(run.running.get(1)).toBe(first);
    expect(seqsOf(run.waiting)).toEqual([1]);
    expect(run.counts.lost).toBe(0); // it counts when it has ended
  });

  it("IBX-078 FUN-03 a message that is claimed again while it is being settled does not wait; its new lease is renewed instead of the old one", async () => {
    const { run, owners, calls } = claiming([message(1)]);
    toSettling(run, held(run, message(1)), { kind: "ack" });
    await claim(run);
    expect(run.waiting).toEqual([]);
    const inAWhile = performance.now() + 20_000; // a third of the lease has passed by then
    renewLeases(run, inAWhile);
    await untilQuiet(run);
    expect(calls).toEqual([{ verb: "renew", owner: owners[0], seqs: [1] }]);
  });

  it("ADD-09 an empty claim means drained, and the next poll has to wait", async () => {
    const { run } = claiming([]);
    await claim(run);
    expect(run.isDrained).toBe(true);
    expect(run.polls.untilNextMs(performance.now())).toBeGreaterThan(0);
  });

  it("FUN-06 an empty claim does not mean drained when a wake-up came while it was under way", async () => {
    const { run } = claiming([]);
    claimMore(run);
    expectClaimable(run);
    await untilQuiet(run);
    expect(run.isDrained).toBe(false);
  });

  it("ADD-04 a claim that fails ends the run with its error", async () => {
    const fault = new Error("the database is away");
    const run = testRun({ store: recordingStore([], { claim: () => Promise.reject(fault) }) });
    await claim(run);
    expect(run.fault).toBe(fault);
  });

  it("ADD-04 a claim that does not return is given up, and ends the run", async () => {
    let signal: AbortSignal | undefined;
    const store = recordingStore([], {
      claim(options) {
        signal = options.signal;
        return never();
      },
    });
    const run = testRun({ store, leaseMs: 20, settleTimeoutMs: 20 });
    await claim(run);
    expect(run.fault).toMatchObject({ name: "TimeoutError" });
    expect(signal?.aborted).toBe(true);
  });

  it("FUN-03 a claim that the end of the run aborts is no fault", async () => {
    const store = recordingStore([], {
      claim: ({ signal }) =>
        new Promise((_, reject) => signal!.addEventListener("abort", () => reject(signal!.reason))),
    });
    const run = testRun({ store });
    claimMore(run);
    run.claimAbort.abort();
    await untilQuiet(run);
    expect(run.fault).toBeUndefined();
  });
});
