import { describe, expect, it } from "vitest";
import { yieldToEventLoop } from "../../src/base/timers.js";
import { type Lease, toSettling } from "../../src/dispatch/run-state.js";
import { type Decision, settleFinished } from "../../src/dispatch/settlement.js";
import type { QueueMessage } from "../../src/index.js";
import { gate } from "../contract/support/gate.js";
import {
  held,
  lease,
  message,
  recordingStore,
  type StoreCall,
  seqsOf,
  type TestHeld,
  type TestRunState,
  type TestStore,
  testRun,
  untilQuiet,
} from "../support/test-run.js";

const ack: Decision = { kind: "ack" };
const release: Decision = { kind: "release" };
const fail: Decision = { kind: "fail", error: "no retry can help" };
const abandon = (maxAttempts?: number, delayMs?: number): Decision => ({
  kind: "abandon",
  error: "it failed",
  delayMs,
  maxAttempts,
  costsAttempt: true,
});

const first = lease();
const second = lease();

/** The end of one message: its row number, how it is settled, and under which claim's lease. */
type End = readonly [seq: number, decision: Decision, under?: Lease];

const finish = (run: TestRunState, ends: readonly End[]): readonly TestHeld[] =>
  ends.map(([seq, decision, under = first]) => {
    const ended = held(run, message(seq), under);
    toSettling(run, ended, decision);
    return ended;
  });

const settle = async (run: TestRunState): Promise<void> => {
  settleFinished(run);
  await untilQuiet(run);
};

const untilSettled = async (run: TestRunState): Promise<void> => {
  while (run.settling.size > 0) await run.changed.next(10_000);
};

const runWith = (instead?: Partial<TestStore>) => {
  const calls: StoreCall[] = [];
  return { calls, run: testRun({ store: recordingStore(calls, instead), settleTimeoutMs: 50 }) };
};

const grouping: readonly {
  readonly name: string;
  readonly ends: readonly End[];
  /** Each as its verb and its messages. */
  readonly calls: readonly string[];
}[] = [
  {
    name: "acknowledgements of one claim are one call",
    ends: [
      [1, ack],
      [2, ack],
      [3, ack],
    ],
    calls: ["ack 1,2,3"],
  },
  {
    name: "each claim has a call of its own, because each has its own owner",
    ends: [
      [1, ack, first],
      [2, ack, second],
      [3, ack, first],
    ],
    calls: ["ack 1,3", "ack 2"],
  },
  {
    name: "each kind of decision has a call of its own",
    ends: [
      [1, ack],
      [2, release],
      [3, abandon()],
      [4, fail],
      [5, ack],
    ],
    calls: ["ack 1,5", "release 2", "abandon 3", "fail 4"],
  },
  {
    name: "abandoned messages with different delays are one call",
    ends: [
      [1, abandon(5, 10)],
      [2, abandon(5, 20)],
    ],
    calls: ["abandon 1,2"],
  },
  {
    name: "abandoned messages with different limits of attempts are two calls",
    ends: [
      [1, abandon(5)],
      [2, abandon(6)],
      [3, abandon()],
    ],
    calls: ["abandon 1", "abandon 2", "abandon 3"],
  },
  {
    name: "failed messages are settled one by one, because each has its own error",
    ends: [
      [1, fail],
      [2, fail],
    ],
    calls: ["fail 1", "fail 2"],
  },
];

describe("the settlement of finished messages", () => {
  it.each(grouping)("FUN-03 $name", async ({ ends, calls: expected }) => {
    const { run, calls } = runWith();
    finish(run, ends);
    await settle(run);
    expect(calls.map(({ verb, seqs }) => `${verb} ${seqs.join()}`)).toEqual(expected);
    expect(run.settling.size).toBe(0);
    const { acked, released, abandoned, failed, lost } = run.counts;
    expect(acked + released + abandoned + failed).toBe(ends.length);
    expect(lost).toBe(0);
  });

  it("FUN-03 what finishes during a call makes the next group", async () => {
    const sent = gate();
    const goOn = gate();
    const groups: (readonly number[])[] = [];
    const { run } = runWith({
      async ack(_owner, messages) {
        groups.push(messages.map(({ seq }) => seq));
        sent.open();
        await goOn.promise;
        return { changed: messages, lost: [], dead: [] };
      },
    });
    finish(run, [[1, ack]]);
    settleFinished(run);
    await sent.promise;
    finish(run, [
      [2, ack],
      [3, ack],
    ]);
    settleFinished(run); // changes nothing: a group is under way
    goOn.open();
    await untilQuiet(run);
    expect(groups).toEqual([[1], [2, 3]]);
  });

  it("FUN-03 a message is held, and its key is busy, until its settlement is confirmed", async () => {
    const sent = gate();
    const goOn = gate();
    const { run } = runWith({
      async ack(_owner, messages) {
        sent.open();
        await goOn.promise;
        return { changed: messages, lost: [], dead: [] };
      },
    });
    run.isDrained = true;
    toSettling(run, held(run, message(1, { partitionKey: "k" })), ack);
    settleFinished(run);
    await sent.promise;
    expect([run.settling.size, run.busyPartitions.has("k"), run.isDrained]).toEqual([1, true, true]);
    goOn.open();
    await untilQuiet(run);
    // the next message of the key is claimable now
    expect([run.settling.size, run.busyPartitions.has("k"), run.isDrained]).toEqual([0, false, false]);
  });

  it("ADD-04 a call that fails is tried again for as long as a lease lasts, and the others are settled meanwhile", async () => {
    let tries = 0;
    const { run, calls } = runWith({
      async ack(_owner, messages) {
        if (++tries <= 4) throw new Error("the database is away");
        return { changed: messages, lost: [], dead: [] };
      },
    });
    finish(run, [
      [1, ack],
      [2, release],
    ]);
    await settle(run);
    expect(calls).toMatchObject([{ verb: "release", seqs: [2] }]);
    expect([...run.settling.keys()]).toEqual([1]); // it is still held, and renewed
    await untilSettled(run);
    expect(run.counts).toMatchObject({ acked: 1, released: 1, lost: 0 });
  });

  it.each([
    ["a lease lasts", 1, 60_000],
    ["the run may take", 60_000, 0],
  ])(
    "ADD-04 a call that fails longer than %s leaves its messages to their lease",
    async (_, leaseMs, remainingMs) => {
      const store = recordingStore([], { ack: () => Promise.reject(new Error("the database is away")) });
      const run = testRun({ store, remainingMs });
      finish(run, [[1, ack, { ...lease(), leaseMs }]]);
      await settle(run);
      await untilSettled(run);
      expect(run.counts).toMatchObject({ acked: 0, lost: 0 });
    },
  );

  it("IBX-078 slow calls leave a connection of the smallest usual pool, which has four, to renewals", async () => {
    let started = 0;
    const goOn = gate();
    const { run } = runWith({
      async fail(_owner, messages) {
        started++;
        await goOn.promise;
        return { changed: messages, lost: [], dead: [] };
      },
    });
    finish(
      run,
      [1, 2, 3, 4].map((seq): End => [seq, fail]),
    );
    settleFinished(run);
    await yieldToEventLoop();
    await yieldToEventLoop();
    expect(started).toBe(3);
    goOn.open();
    await untilQuiet(run);
    expect(run.counts.failed).toBe(4);
  });

  it("FUN-03 a call that does not return is given up at its deadline and tried again", async () => {
    const signals: (AbortSignal | undefined)[] = [];
    const { run } = runWith({
      async ack(_owner, messages, options) {
        signals.push(options?.signal);
        if (signals.length === 1) return new Promise<never>(() => {});
        return { changed: messages, lost: [], dead: [] };
      },
    });
    finish(run, [[1, ack]]);
    await settle(run);
    expect(signals.map((signal) => signal?.aborted)).toEqual([true, false]);
    expect(run.counts).toMatchObject({ acked: 1 });
  });

  it("IBX-078 messages that the owner no longer holds are counted as lost, the others as settled", async () => {
    const { run } = runWith({
      ack: async (_owner, messages) => ({ changed: messages.slice(1), lost: messages.slice(0, 1), dead: [] }),
    });
    finish(run, [
      [1, ack],
      [2, ack],
      [3, ack],
    ]);
    await settle(run);
    expect(run.counts).toMatchObject({ acked: 2, lost: 1 });
    expect(run.settling.size).toBe(0);
  });
});

/** Every call under the first lease comes too late: the message has been claimed again. */
const lostUnder = (owner: string, messages: readonly QueueMessage[]) =>
  owner === first.owner
    ? { changed: [], lost: messages, dead: [] }
    : { changed: messages, lost: [], dead: [] };

describe("a message that was claimed again before its settlement was confirmed", () => {
  const claimedAgain = (run: TestRunState, decision: Decision, under = first): TestHeld => {
    const [settling] = finish(run, [[1, decision, under]]);
    const later = held(run, message(1, { attempt: 1 }), second);
    settling!.later = later;
    return later;
  };

  it.each([
    ["acknowledged", "acked", ack],
    ["released", "released", release],
    ["made dead", "failed", fail],
    ["abandoned", "abandoned", abandon()],
  ] as const)("IBX-078 is %s under the later lease, and counted once", async (_, count, decision) => {
    const owners: string[] = [];
    const costs: (boolean | undefined)[] = [];
    const answer = async (owner: string, messages: readonly QueueMessage[]) => {
      owners.push(owner);
      return lostUnder(owner, messages);
    };
    const { run } = runWith({
      ack: answer,
      release: answer,
      fail: answer,
      abandon(owner, items) {
        costs.push(...items.map(({ costsAttempt }) => costsAttempt));
        return answer(
          owner,
          items.map((item) => item.message),
        );
      },
    });
    claimedAgain(run, decision);
    await settle(run);
    expect(owners).toEqual([first.owner, second.owner]);
    // the expiry of the first lease has counted the attempt
    if (decision.kind === "abandon") expect(costs).toEqual([true, false]);
    expect(run.counts).toMatchObject({ [count]: 1, lost: 0, handled: 0 });
    expect([run.settling.size, run.waiting.length]).toEqual([0, 0]);
  });

  it("IBX-078 is settled under the later lease when its first settlement could not be sent", async () => {
    const owners: string[] = [];
    const { run } = runWith({
      async ack(owner, messages) {
        owners.push(owner);
        if (owner === first.owner) throw new Error("the connection was lost");
        return { changed: messages, lost: [], dead: [] };
      },
    });
    claimedAgain(run, ack, { ...first, leaseMs: 1 });
    while (run.settling.size > 0) {
      settleFinished(run);
      await run.changed.next(10_000);
    }
    expect(owners.slice(2)).toContain(first.owner); // it was tried several times
    expect(owners.at(-1)).toBe(second.owner);
    expect(run.counts).toMatchObject({ acked: 1, lost: 0 });
  });

  it("IBX-075 waits to be handled again when its settlement came before the claim: it was abandoned and is due", async () => {
    const { run, calls } = runWith();
    const later = claimedAgain(run, abandon());
    await settle(run);
    expect(calls).toMatchObject([{ verb: "abandon", owner: first.owner }]);
    expect(run.counts).toMatchObject({ abandoned: 1, lost: 0 });
    expect(run.settling.size).toBe(0);
    expect(seqsOf(run.waiting)).toEqual([1]);
    expect(run.waiting[0]).toBe(later);
  });
});
