import { describe, expect, it } from "vitest";
import { startWaiting } from "../../src/dispatch/running-handlers.js";
import {
  lease,
  message,
  running,
  seqsOf,
  suspect,
  type TestRunOptions,
  type TestRunState,
  testRun,
  waiting,
} from "../support/test-run.js";

interface Case {
  readonly name: string;
  readonly options?: TestRunOptions;
  readonly state: (run: TestRunState) => void;
  /** What runs, waits and is released afterwards. */
  readonly runs: readonly number[];
  readonly waits?: readonly number[];
  readonly released?: readonly number[];
  readonly lost?: number;
}

const never = () => new Promise<never>(() => {});
const limited = { handlers: { t: never, single: { handle: never, concurrency: 1 } } };
const keyed = (seq: number) => message(seq, { partitionKey: "k" });
const single = (seq: number) => message(seq, { topic: "single" });
const expired = () => lease(-1);

const cases: readonly Case[] = [
  {
    name: "starts all that wait",
    state: (run) => [1, 2, 3].map((seq) => waiting(run, message(seq))),
    runs: [1, 2, 3],
  },
  {
    name: "starts no more than there are free slots, of whatever topics",
    options: { concurrency: 2, handlers: { t: never, other: never } },
    state(run) {
      running(run, message(1, { topic: "other" }));
      for (const seq of [2, 3, 4]) waiting(run, message(seq));
    },
    runs: [1, 2],
    waits: [3, 4],
  },
  {
    name: "starts nothing while all slots are full",
    options: { concurrency: 1, handlers: { t: never, other: never } },
    state(run) {
      running(run, message(1, { topic: "other" }));
      waiting(run, message(2));
    },
    runs: [1],
    waits: [2],
  },
  {
    name: "releases what waits while no slot becomes free: another worker may have one",
    options: { concurrency: 1, handlers: { t: never, other: never } },
    state(run) {
      running(run, message(1, { topic: "other" }));
      run.lastStartAt -= 1_000;
      waiting(run, message(2));
      waiting(run, message(3));
    },
    runs: [1],
    released: [2, 3],
  },
  {
    name: "keeps a suspect while no slot becomes free: every claim would return it again",
    options: { concurrency: 1 },
    state(run) {
      running(run, message(1));
      run.lastStartAt -= 1_000;
      waiting(run, suspect(2));
    },
    runs: [1],
    waits: [2],
  },
  {
    name: "starts others while a topic is at its limit",
    options: limited,
    state(run) {
      for (const seq of [1, 2]) waiting(run, single(seq));
      waiting(run, message(3));
    },
    runs: [1, 3],
    waits: [2],
  },
  {
    name: "starts one message of a partition key",
    state(run) {
      for (const seq of [1, 2]) waiting(run, keyed(seq));
      waiting(run, message(3));
    },
    runs: [1, 3],
    waits: [2],
  },
  {
    name: "starts no message of a key while one of it is being settled",
    state(run) {
      run.busyPartitions.add("k");
      waiting(run, keyed(2));
    },
    runs: [],
    waits: [2],
  },
  {
    name: "does not start a message whose earlier handler still runs",
    state(run) {
      running(run, message(1)).isLost = true;
      waiting(run, message(1));
    },
    runs: [1],
    waits: [1],
  },
  {
    name: "drops a message whose lease is over, and keeps what cannot start yet behind it",
    options: limited,
    state(run) {
      running(run, single(9));
      waiting(run, message(1), expired());
      waiting(run, single(2));
      waiting(run, message(3));
    },
    runs: [9, 3],
    waits: [2],
    lost: 1,
  },
  {
    name: "starts a suspect that is alone",
    state: (run) => waiting(run, suspect(1)),
    runs: [1],
  },
  {
    name: "starts a suspect after what runs, and releases what waits beside it",
    state(run) {
      running(run, message(1));
      waiting(run, message(2));
      waiting(run, suspect(3));
    },
    runs: [1],
    waits: [3],
    released: [2],
  },
  {
    name: "starts a suspect after a claim that is under way",
    state(run) {
      run.isClaiming = true;
      waiting(run, suspect(1));
    },
    runs: [],
    waits: [1],
  },
  {
    name: "starts nothing beside a suspect",
    state(run) {
      running(run, suspect(1));
      waiting(run, message(2));
    },
    runs: [1],
    waits: [2],
  },
  {
    name: "drops a suspect whose lease is over",
    state: (run) => waiting(run, suspect(1), expired()),
    runs: [],
    lost: 1,
  },
  {
    name: "starts nothing whose topic needs longer than what is left",
    options: { remainingMs: 1_000, expectedHandlerMs: 2_000 },
    state: (run) => waiting(run, message(1)),
    runs: [],
    waits: [1],
  },
  {
    name: "starts nothing in the reserve",
    options: { remainingMs: 100, expectedHandlerMs: 1 },
    state: (run) => waiting(run, message(1)),
    runs: [],
    waits: [1],
  },
  {
    name: "starts nothing after the run was told to stop",
    options: { signal: AbortSignal.abort() },
    state: (run) => waiting(run, message(1)),
    runs: [],
    waits: [1],
  },
];

describe("the starter", () => {
  it.each(cases)("FUN-03 ADD-11 $name", ({ options, state, runs, waits = [], released = [], lost = 0 }) => {
    const run = testRun(options);
    state(run);
    // As the run's loop does: on a busy machine one step may start a part only.
    for (let step = 0; step < 5; step++) startWaiting(run);
    expect([...run.running.keys()]).toEqual(runs);
    expect(seqsOf(run.waiting)).toEqual(waits);
    expect(seqsOf(run.settling.values())).toEqual(released);
    expect(run.unsent.every(({ decision }) => decision?.kind === "release")).toBe(true);
    expect(run.counts.lost).toBe(lost);
  });

  it("ADD-11 a suspect that does not fit into the time ends the run: another claim would return it again", () => {
    const run = testRun({ remainingMs: 1_000, expectedHandlerMs: 2_000 });
    waiting(run, suspect(1));
    startWaiting(run);
    expect(run.suspectNotStarted).toBe(true);
    expect(seqsOf(run.waiting)).toEqual([1]);
  });

  it("FUN-03 what it starts is counted for its topic, its key is busy, and its time-out is set", () => {
    const run = testRun({ timeoutMs: 5_000 });
    const started = waiting(run, keyed(1));
    startWaiting(run);
    expect(started.topic.running).toBe(1);
    expect([...run.busyPartitions]).toEqual(["k"]);
    expect(started.timeoutAt - started.startedAt).toBeCloseTo(5_000);
  });
});
