import { describe, expect, it } from "vitest";
import { permanentFailure, retryAfter } from "../../src/index.js";
import type { PreparedMessages } from "../../src/queue/work-store.js";
import { gate } from "../contract/support/gate.js";
import {
  lost,
  message,
  messages,
  never,
  pass,
  quiet,
  type RunScript,
  type StoreCall,
  startRun,
  useSimulatedTime,
} from "../support/scripted-run.js";

/** Handlers by how their messages are settled. */
const handlers = {
  ack: () => {},
  fail: () => permanentFailure("no retry can help"),
  abandon: () => Promise.reject(new Error("it failed")),
  soon: () => retryAfter(10),
  later: () => retryAfter(20),
  five: { handle: () => Promise.reject(new Error("it failed")), retry: { maxAttempts: 5 } },
  six: { handle: () => Promise.reject(new Error("it failed")), retry: { maxAttempts: 6 } },
};
const ended = (...topics: readonly (keyof typeof handlers)[]) =>
  topics.map((topic, index) => message(index + 1, { topic }));

const grouping: readonly [
  name: string,
  claimed: readonly ReturnType<typeof message>[],
  sent: readonly string[],
][] = [
  ["acknowledgements of one claim are one call", ended("ack", "ack", "ack"), ["ack 1,2,3 of 1"]],
  [
    "each kind of decision has a call of its own",
    ended("ack", "fail", "abandon", "ack"),
    ["ack 1,4 of 1", "fail 2 of 1", "abandon 3 of 1"],
  ],
  ["abandoned messages with different delays are one call", ended("soon", "later"), ["abandon 1,2 of 1"]],
  [
    "abandoned messages with different limits of attempts are several calls",
    ended("five", "six", "abandon"),
    ["abandon 1 of 1", "abandon 2 of 1", "abandon 3 of 1"],
  ],
  [
    "failed messages are settled one by one, because each has its own error",
    ended("fail", "fail"),
    ["fail 1 of 1", "fail 2 of 1"],
  ],
];

describe("settling finished messages", () => {
  useSimulatedTime();

  it.each(grouping)("FUN-03 %s", async (_, claimed, sent) => {
    const run = startRun({ claims: [claimed], handlers });
    const { acked, abandoned, failed, lost: notHeld } = await run.ended;
    expect([...run.sent()].sort()).toEqual([...sent].sort());
    expect(acked + abandoned + failed).toBe(claimed.length);
    expect(notHeld).toBe(0);
  });

  it("FUN-03 each claim has a call of its own, because each has its own owner", async () => {
    const mayEnd = gate();
    const run = startRun({
      claims: [[message(1), message(3)], [message(2)]],
      handlers: { t: () => mayEnd.promise },
    });
    await quiet();
    mayEnd.open();
    await run.ended;
    expect(run.sent()).toEqual(["ack 1,3 of 1", "ack 2 of 2"]);
  });

  it("FUN-03 releases are one call of their own", async () => {
    const run = startRun({
      claims: [messages(3)],
      handlers: { t: () => run.budget.stop() },
    });
    expect(await run.ended).toMatchObject({ acked: 1, released: 2 });
    expect(run.sent()).toEqual(["ack 1 of 1", "release 2,3 of 1"]);
  });

  it("FUN-03 messages that finish during a call are the next group", async () => {
    const sent = gate();
    const others = gate();
    const run = startRun({
      claims: [messages(3)],
      handlers: { t: ({ seq }) => (seq === 1 ? undefined : others.promise) },
      answer: async () => void (await sent.promise),
    });
    await quiet();
    others.open();
    await quiet();
    expect(run.sent()).toEqual(["ack 1 of 1"]);
    sent.open();
    await run.ended;
    expect(run.sent()).toEqual(["ack 1 of 1", "ack 2,3 of 1"]);
  });

  /** Messages 1 and 2 return nothing, 3 and 4 a message, 5 and 6 one with a natural key. */
  const returning: RunScript = {
    claims: [messages(6)],
    handlers: {
      t: ({ seq }) =>
        seq <= 2 ? undefined : { topic: "out", payload: "", naturalKey: seq <= 4 ? undefined : `k-${seq}` },
    },
    outbox: {
      prepare: (all) =>
        ({ hasNaturalKeys: all.some(({ naturalKey }) => naturalKey !== undefined) }) as PreparedMessages,
    },
  };

  it("ADD-18 ADD-21 acknowledgements that send are apart from the others, and natural keys from the rest", async () => {
    const run = startRun(returning);
    expect(await run.ended).toMatchObject({ acked: 6 });
    expect([...run.sent()].sort()).toEqual(["ack 1,2 of 1", "ack 3,4 of 1", "ack 5,6 of 1"]);
  });

  it("ADD-18 ADD-21 a call with messages to send that fails is repeated singly: one that waits delays no other", async () => {
    let isHeld = true;
    const run = startRun({
      ...returning,
      answer({ seqs }) {
        if (isHeld && seqs.includes(6)) throw new Error("an open transaction holds the natural key");
        return undefined;
      },
    });
    await quiet();
    expect(run.sent()).toEqual(expect.arrayContaining(["ack 5,6 of 1", "ack 5 of 1", "ack 6 of 1"]));
    isHeld = false;
    await pass(1_000);
    expect(await run.ended).toMatchObject({ acked: 6, lost: 0 });
    expect(run.sent().filter((call) => call === "ack 5 of 1")).toHaveLength(1);
  });

  it("ADD-18 ADD-21 natural keys that an open transaction holds cost the others one more call, and no whole time-out", async () => {
    const held = [2, 3, 4, 5];
    let isHeld = true;
    const run = startRun({
      ...returning,
      claims: [messages(12)],
      handlers: { t: ({ seq }) => ({ topic: "out", payload: "", naturalKey: `k-${seq}` }) },
      settleTimeoutMs: 60_000,
      leaseMs: 600_000,
      answer: ({ seqs }) => (isHeld && seqs.some((seq) => held.includes(seq)) ? never() : undefined),
    });
    await quiet();
    expect(run.sent()).toEqual([`ack ${messages(12).map(({ seq }) => seq)} of 1`]);
    await pass(6_500);
    const singly = run.sent().slice(1);
    for (const { seq } of messages(12).filter((one) => !held.includes(one.seq)))
      expect(singly.filter((call) => call === `ack ${seq} of 1`)).toHaveLength(1);
    isHeld = false;
    await pass(60_000);
    expect(await run.ended).toMatchObject({ acked: 12, lost: 0 });
  });

  it("ADD-04 a call that fails is repeated for as long as a lease lasts, and the others are settled meanwhile", async () => {
    let tries = 0;
    const run = startRun({
      claims: [ended("ack", "abandon")],
      handlers,
      answer({ verb }) {
        if (verb === "ack" && ++tries <= 4) throw new Error("the database is away");
        return undefined;
      },
    });
    await quiet();
    expect(run.sent()).toContain("abandon 2 of 1");
    expect(tries).toBe(3);
    await pass(1_000);
    expect(await run.ended).toMatchObject({ acked: 1, abandoned: 1, lost: 0 });
    expect(tries).toBe(5);
  });

  const away: RunScript = {
    claims: [messages(1)],
    handlers: { t: () => {} },
    answer({ verb }) {
      if (verb === "ack") throw new Error("the database is away");
      return undefined;
    },
  };

  it("ADD-04 a call that fails longer than a lease lasts leaves its messages to their lease", async () => {
    const run = startRun({ ...away, leaseMs: 1_000 });
    await quiet();
    await pass(1_500);
    expect(await run.ended).toMatchObject({ acked: 0, lost: 0, stopped: "drained" });
  });

  it("ADD-04 a call that fails until the run must return leaves its messages to their lease", async () => {
    const run = startRun(away);
    await quiet();
    expect(await run.end()).toMatchObject({ acked: 0, lost: 0 });
    run.budget.remaining = 0;
    await pass(2_000); // the longest wait between two tries
    const tries = run.seqsOf("ack").length;
    await pass(10_000);
    expect(run.seqsOf("ack")).toHaveLength(tries);
  });

  it("IBX-078 slow calls leave one of a pool's four connections to renewals", async () => {
    const goOn = gate();
    const run = startRun({
      claims: [ended("fail", "fail", "fail", "fail")],
      handlers,
      answer: async () => void (await goOn.promise),
    });
    await quiet();
    expect(run.seqsOf("fail")).toEqual([1, 2, 3]);
    goOn.open();
    expect(await run.ended).toMatchObject({ failed: 4 });
  });

  it("IBX-078 messages that the owner no longer holds are counted as lost, the others as settled", async () => {
    const run = startRun({
      claims: [messages(3)],
      handlers: { t: () => {} },
      answer: ({ messages: all }) => ({ changed: all.slice(1), lost: all.slice(0, 1), dead: [] }),
    });
    expect(await run.ended).toMatchObject({ acked: 2, lost: 1 });
  });
});

describe("a message that was claimed again before its settlement was confirmed", () => {
  useSimulatedTime();

  /** Settlements under the first lease wait until the message has been claimed again, and come too late then. */
  const tooLate = (again: Promise<void>) => async (call: StoreCall) => {
    if (call.claim > 1) return undefined;
    await again;
    return lost(call.messages);
  };

  it.each([
    ["acknowledged", "ack", "acked"],
    ["made dead", "fail", "failed"],
    ["abandoned", "abandon", "abandoned"],
  ] as const)("IBX-078 is %s under the later lease, and counted once", async (_, topic, count) => {
    const again = gate();
    const run = startRun({
      claims: [ended(topic), ended(topic)],
      handlers,
      answer: tooLate(again.promise),
    });
    await quiet();
    again.open();
    expect(await run.ended).toMatchObject({ [count]: 1, lost: 0, handled: 1 });
    expect(run.sent()).toEqual([`${topic} 1 of 1`, `${topic} 1 of 2`]);
    // the expiry of the first lease has counted the attempt
    const costs = run.calls.flatMap(({ items = [] }) => items.map(({ costsAttempt }) => costsAttempt));
    expect(costs).toEqual(topic === "abandon" ? [true, false] : []);
  });

  it("IBX-078 is released under the later lease, and counted once", async () => {
    const again = gate();
    const slot = gate();
    const run = startRun({
      concurrency: 1,
      claims: [messages(2), [], [], [message(2)]],
      handlers: { t: () => slot.promise },
      answer: (call) => (call.verb === "release" ? tooLate(again.promise)(call) : undefined),
    });
    await quiet();
    await pass(1_000); // no slot becomes free
    expect(run.sent()).toEqual(["release 2 of 1"]);
    slot.open();
    await quiet();
    again.open();
    expect(await run.ended).toMatchObject({ released: 1, acked: 1, lost: 0, handled: 1 });
    const releases = run.sent().filter((call) => call.startsWith("release"));
    expect(releases).toEqual(["release 2 of 1", `release 2 of ${run.calls.at(-1)!.claim}`]);
    expect(run.calls.at(-1)!.claim).toBeGreaterThan(1);
  });

  it("IBX-078 is settled under the later lease when its first settlement could not be sent", async () => {
    const run = startRun({
      leaseMs: 1_000,
      claims: [messages(1), messages(1)],
      handlers: { t: () => {} },
      answer({ verb, claim }) {
        if (verb === "ack" && claim === 1) throw new Error("the connection was lost");
        return undefined;
      },
    });
    await quiet();
    await pass(2_000);
    expect(await run.ended).toMatchObject({ acked: 1, lost: 0, handled: 1 });
    const acks = run.sent().filter((call) => call.startsWith("ack"));
    expect(acks.slice(0, 4)).toEqual(Array.from({ length: 4 }, () => "ack 1 of 1"));
    expect(acks.at(-1)).toBe("ack 1 of 2");
  });

  it("IBX-075 is handled again when its settlement came before the claim: it was abandoned and is due", async () => {
    const abandoned = gate();
    const run = startRun({
      claims: [messages(1), [message(1, { attempt: 1 })]],
      handlers: { t: ({ attempt }) => (attempt === 0 ? Promise.reject(new Error("it failed")) : undefined) },
      answer: async ({ verb }) => void (verb === "abandon" && (await abandoned.promise)),
    });
    await quiet();
    abandoned.open();
    expect(await run.ended).toMatchObject({ abandoned: 1, acked: 1, lost: 0 });
    expect(run.sent()).toEqual(["abandon 1 of 1", "ack 1 of 2"]);
  });
});
