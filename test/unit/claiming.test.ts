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
  /** The sizes of the claims, the first one included. */
  readonly sizes: readonly number[];
}

const single = (count: number) => messages(count, { topic: "single" });
const limited = { t: never, single: { handle: never, concurrency: 1 } };
const unsettled: RunScript = {
  batchSize: 5,
  handlers: { t: () => {} },
  answer: ({ verb }) => (verb === "ack" ? never() : undefined),
};
const batchFrom = (first: number, count = 5) => messages(count).map(({ seq }) => message(first + seq));

/** The batch has 50 messages, and 10 handlers may run at once, unless a case sets another number. */
const cases: readonly Case[] = [
  { name: "claims a batch when it holds nothing", sizes: [50] },
  {
    name: "claims a batch in a worker without handlers, whose time does not end",
    handlers: {},
    remainingMs: Number.POSITIVE_INFINITY,
    sizes: [50],
  },
  { name: "claims while handlers run", claims: [[message(1)]], sizes: [50, 50] },
  {
    name: "claims beside handlers that fill all slots, so that the next messages are there",
    concurrency: 1,
    expectedHandlerMs: 10,
    claims: [[message(1)]],
    sizes: [50, 50],
  },
  { name: "claims no more than it can start within a second", expectedHandlerMs: 500, sizes: [20] },
  {
    name: "claims while fewer startable messages wait than there are slots",
    handlers: { t: never, other: never },
    claims: [[...messages(10, { topic: "other" }), ...batchFrom(10, 9)]],
    sizes: [50, 50],
  },
  {
    name: "does not claim while as many startable messages wait as there are slots",
    handlers: { t: never, other: never },
    claims: [[...messages(10, { topic: "other" }), ...batchFrom(10, 10)]],
    sizes: [50],
  },
  {
    name: "claims others while less than a batch waits for a topic's limit, and not while a whole batch waits",
    handlers: limited,
    batchSize: 5,
    claims: [single(5), [message(6, { topic: "single" })]],
    sizes: [5, 5],
  },
  {
    name: "claims while fewer than four batches are being settled",
    ...unsettled,
    claims: [batchFrom(0), batchFrom(5), batchFrom(10), batchFrom(15, 4)],
    sizes: [5, 5, 5, 5, 5],
  },
  {
    name: "does not claim while four batches are being settled: their results may be lost",
    ...unsettled,
    claims: [batchFrom(0), batchFrom(5), batchFrom(10), batchFrom(15)],
    sizes: [5, 5, 5, 5],
  },
  { name: "does not claim twice at once", claims: [never], sizes: [50] },
  {
    name: "does not claim while a suspect waits",
    claims: [[message(1)], [suspect(2)]],
    sizes: [50, 50],
  },
  { name: "does not claim after the run was stopped", isStopped: true, sizes: [] },
  { name: "does not claim in the reserve", remainingMs: 100, sizes: [] },
  {
    name: "tries a first claim even if the expected handler does not fit",
    remainingMs: 150,
    sizes: [10],
  },
  {
    name: "does not claim again what could not be handled",
    remainingMs: 150,
    claims: [[message(1)]],
    sizes: [10],
  },
  {
    name: "claims no more than fits into the time, in rounds of all slots",
    remainingMs: 350,
    expectedHandlerMs: 100,
    sizes: [30],
  },
  {
    name: "claims at least one round",
    remainingMs: 2_100,
    expectedHandlerMs: 60_000,
    concurrency: 3,
    sizes: [3],
  },
];

describe("claiming", () => {
  useSimulatedTime();

  it.each(cases)("FUN-03 $name", async ({ name: _, sizes, ...script }) => {
    const run = startRun({ ...script, run: { keepPolling: true } });
    await quiet(100);
    expect(run.claimSizes).toEqual(sizes);
    await run.end();
    expect(run.claimSizes).toEqual(sizes);
  });

  it("FUN-03 does not poll while no slot becomes free: another worker may have one", async () => {
    const mayEnd = gate();
    const run = startRun({ concurrency: 1, claims: [[message(1)]], handlers: { t: () => mayEnd.promise } });
    await quiet();
    await pass(1_000);
    const polls = run.claimSizes.length;
    await pass(10_000);
    expect(run.claimSizes).toHaveLength(polls);
    mayEnd.open();
    await run.ended;
    expect(run.claimSizes.length).toBeGreaterThan(polls);
  });

  it("FUN-03 polls although no handler was started for long, if a slot is free", async () => {
    const run = startRun({ concurrency: 2, claims: [[message(1)]] });
    await quiet();
    await pass(1_000);
    const polls = run.claimSizes.length;
    await pass(10_000);
    expect(run.claimSizes.length).toBeGreaterThan(polls);
    expect(run.claimSizes.at(-1)).toBe(20);
    await run.end();
  });

  it("IBX-078 a message that is claimed again while it waits is held once, under the new lease", async () => {
    const mayEnd = gate();
    const run = startRun({
      concurrency: 1,
      claims: [[message(9), message(1), message(2)], [message(1)]],
      handlers: { t: ({ seq }) => (seq === 9 ? mayEnd.promise : undefined) },
    });
    await quiet();
    mayEnd.open();
    await run.ended;
    expect(run.started).toEqual([9, 2, 1]);
    expect(run.sent()).toContain("ack 1 of 2");
  });

  it("FUN-06 an empty claim is not followed by a wait when a wake-up came while it was under way", async () => {
    const claimed = gate<readonly []>();
    let wake = (): void => {};
    const run = startRun({
      claims: [() => claimed.promise],
      run: {
        keepPolling: true,
        onWake(wakeRun) {
          wake = wakeRun;
          return () => {};
        },
      },
    });
    await quiet();
    wake();
    claimed.open([]);
    await quiet();
    expect(run.claimSizes).toHaveLength(2);
    await run.end();
  });

  it("ADD-01 a settled message of a partition queue ends the wait: the next one may be claimable", async () => {
    const settled = gate();
    const run = startRun({
      claims: [[message(1, { partitionKey: "k" })], [], [message(2, { partitionKey: "k" })]],
      handlers: { t: () => {} },
      answer: async ({ seqs }) => void (seqs[0] === 1 && (await settled.promise)),
    });
    await quiet();
    expect(run.claimSizes).toHaveLength(2);
    settled.open();
    expect(await run.ended).toMatchObject({ acked: 2 });
  });

  it("ADD-04 a claim that does not return is given up, and ends the run", async () => {
    const run = startRun({ claims: [never], leaseMs: 20, settleTimeoutMs: 30 });
    await quiet();
    await pass(30);
    await expect(run.ended).rejects.toMatchObject({ name: "TimeoutError" });
  });

  it("FUN-03 a claim that the end of the run aborts is no fault", async () => {
    const run = startRun({ claims: [never] });
    await quiet();
    expect(await run.end()).toMatchObject({ claimed: 0, stopped: "aborted" });
  });
});
