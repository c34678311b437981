import { describe, expect, it } from "vitest";
import { gate } from "../contract/support/gate.js";
import {
  message,
  messages,
  never,
  pass,
  quiet,
  type RunScript,
  startRun,
  suspect,
  useSimulatedTime,
} from "../support/scripted-run.js";

interface Case extends RunScript {
  readonly name: string;
  readonly passesMs?: number;
  /** The messages that started, were released, and still wait. */
  readonly starts: readonly number[];
  readonly released?: readonly number[];
  readonly waits?: readonly number[];
}

const limited = { t: never, single: { handle: never, concurrency: 1 } };
const keyed = (seq: number) => message(seq, { partitionKey: "k" });
const single = (seq: number) => message(seq, { topic: "single" });
const other = (seq: number) => message(seq, { topic: "other" });

const cases: readonly Case[] = [
  { name: "starts every message", claims: [messages(3)], starts: [1, 2, 3] },
  {
    name: "starts no more than there are free slots, of whatever topics",
    concurrency: 2,
    handlers: { t: never, other: never },
    claims: [[other(1), message(2), message(3), message(4)]],
    starts: [1, 2],
    waits: [3, 4],
  },
  {
    name: "starts nothing while all slots are full",
    concurrency: 1,
    handlers: { t: never, other: never },
    claims: [[other(1)], [message(2)]],
    passesMs: 990,
    starts: [1],
    waits: [2],
  },
  {
    name: "releases waiting messages while no slot becomes free: another worker may have one",
    concurrency: 1,
    handlers: { t: never, other: never },
    claims: [[other(1), message(2), message(3)]],
    passesMs: 1_000,
    starts: [1],
    released: [2, 3],
  },
  {
    name: "keeps a suspect while no slot becomes free: every claim would return it again",
    concurrency: 1,
    claims: [[message(1)], [suspect(2)]],
    passesMs: 1_000,
    starts: [1],
    waits: [2],
  },
  {
    name: "starts others while a topic is at its limit",
    handlers: limited,
    claims: [[single(1), single(2), message(3)]],
    starts: [1, 3],
    waits: [2],
  },
  {
    name: "starts one message of a partition key",
    claims: [[keyed(1), keyed(2), message(3)]],
    starts: [1, 3],
    waits: [2],
  },
  { name: "starts a suspect when nothing else is claimed", claims: [[suspect(1)]], starts: [1] },
  {
    name: "starts a suspect after the running handlers, and releases the other waiting messages",
    concurrency: 1,
    claims: [[message(1)], [message(2), suspect(3)]],
    starts: [1],
    released: [2],
    waits: [3],
  },
  {
    name: "starts nothing that needs more time than is left",
    remainingMs: 1_000,
    expectedHandlerMs: 2_000,
    claims: [[message(1)]],
    starts: [],
    released: [1],
  },
];

describe("starting claimed messages", () => {
  useSimulatedTime();

  it.each(cases)(
    "FUN-03 ADD-11 $name",
    async ({ name: _, passesMs = 0, starts, released = [], waits = [], ...script }) => {
      const run = startRun(script);
      await quiet();
      await pass(passesMs);
      expect(run.started).toEqual(starts);
      expect(run.seqsOf("release")).toEqual(released);
      const { lost } = await run.end();
      expect(run.started).toEqual(starts);
      expect(run.seqsOf("release")).toEqual([...released, ...waits]);
      expect(lost).toBe(0);
    },
  );

  it("FUN-03 starts no message of a key while one of it is being settled", async () => {
    const settled = gate();
    const run = startRun({
      handlers: { t: () => {} },
      claims: [[keyed(1), keyed(2)]],
      answer: async () => void (await settled.promise),
    });
    await quiet();
    expect(run.started).toEqual([1]);
    settled.open();
    await run.ended;
    expect(run.started).toEqual([1, 2]);
  });

  it("FUN-03 drops a message whose lease is over, and keeps what cannot start yet behind it", async () => {
    const mayEnd = gate();
    const run = startRun({
      concurrency: 2,
      leaseMs: 900,
      claims: [[single(9), message(1), message(4)], [], [single(2), message(3)]],
      handlers: { ...limited, t: ({ seq }) => (seq === 1 ? mayEnd.promise : never()) },
      answer: ({ verb }) => (verb === "renew" ? never() : undefined),
    });
    await quiet();
    await pass(500); // the second batch is claimed, under a lease of its own
    await pass(450); // the first lease is over
    mayEnd.open();
    await quiet();
    expect(run.started).toEqual([9, 1, 3]);
    expect(await run.end()).toMatchObject({ lost: 1 });
    expect(run.seqsOf("release")).toEqual([2]);
  });

  it("ADD-11 drops a suspect whose lease is over", async () => {
    const mayEnd = gate();
    const run = startRun({
      concurrency: 1,
      leaseMs: 900,
      claims: [[message(1)], [suspect(2)]],
      handlers: { t: () => mayEnd.promise },
      answer: ({ verb }) => (verb === "renew" ? never() : undefined),
    });
    await quiet();
    await pass(950);
    mayEnd.open();
    expect(await run.ended).toMatchObject({ lost: 1, acked: 1 });
    expect(run.started).toEqual([1]);
  });

  it("ADD-11 starts a suspect after a claim that is under way", async () => {
    const abandoned = gate();
    const claimed = gate<readonly []>();
    const run = startRun({
      // it fails, is claimed again while it is being abandoned, and the next claim takes long
      claims: [[message(1)], [suspect(1)], () => claimed.promise],
      handlers: {
        t({ crashes }) {
          if (crashes === 0) throw new Error("it failed");
        },
      },
      answer: async ({ verb }) => void (verb === "abandon" && (await abandoned.promise)),
    });
    await quiet();
    abandoned.open();
    await quiet();
    expect(run.claimSizes).toHaveLength(3);
    expect(run.started).toEqual([1]);
    claimed.open([]);
    await run.ended;
    expect(run.started).toEqual([1, 1]);
  });

  it("ADD-11 neither starts nor claims anything beside a suspect", async () => {
    const mayEnd = gate();
    const run = startRun({
      claims: [[suspect(1)], [message(2)]],
      handlers: { t: () => mayEnd.promise },
    });
    await quiet();
    await pass(20_000);
    expect(run.claimSizes).toHaveLength(1);
    expect(run.started).toEqual([1]);
    mayEnd.open();
    await run.ended;
    expect(run.started).toEqual([1, 2]);
  });

  it("ADD-11 a suspect that does not fit into the time ends the run: another claim would return it again", async () => {
    const run = startRun({
      remainingMs: 1_000,
      expectedHandlerMs: 2_000,
      claims: [[suspect(1)], [suspect(1)]],
      run: { keepPolling: true },
    });
    expect(await run.ended).toMatchObject({ claimed: 1, handled: 0, released: 1, stopped: "time" });
  });

  it.each([
    ["in the reserve", { remaining: 100 }],
    ["after the run was stopped", { isStopped: true }],
  ])(
    "FUN-03 starts nothing %s",
    async (_, { remaining, isStopped }: { remaining?: number; isStopped?: boolean }) => {
      const claimed = gate<ReturnType<typeof messages>>();
      const run = startRun({ claims: [() => claimed.promise] });
      await quiet();
      if (isStopped) run.budget.stop();
      run.budget.remaining = remaining ?? run.budget.remaining;
      claimed.open(messages(2));
      expect(await run.ended).toMatchObject({ handled: 0, released: 2 });
      expect(run.started).toEqual([]);
    },
  );

  it("FUN-03 starts nothing after a handler that stops the run, though it returns at once", async () => {
    const run = startRun({
      claims: [messages(5)],
      handlers: { t: ({ seq }) => void (seq === 2 && run.budget.stop()) },
    });
    expect(await run.ended).toMatchObject({ acked: 2, released: 3, stopped: "aborted" });
    expect(run.started).toEqual([1, 2]);
  });
});
