import { describe, expect, it } from "vitest";
import { silentLogger } from "../../src/base/logger.js";
import type { HeldMessage, RunState } from "../../src/dispatch/run-state.js";
import { startWaiting } from "../../src/dispatch/starter.js";
import type { QueueMessage } from "../../src/index.js";

const topic = (name: string, running: number) => ({
  name,
  handler: { topic: name, handle: () => new Promise(() => {}) },
  maxConcurrency: 1,
  durations: { fractionWithin: () => 1 },
  timeoutMs: Number.POSITIVE_INFINITY,
  running,
});

const held = (seq: number, of: ReturnType<typeof topic>, leaseMs: number) =>
  ({
    message: { seq, topic: of.name, partitionKey: null, crashes: 0 },
    topic: of,
    lease: { expiresAt: performance.now() + leaseMs },
    isLost: false,
  }) as unknown as HeldMessage<QueueMessage, unknown>;

const runWith = (waiting: HeldMessage<QueueMessage, unknown>[]) =>
  ({
    waiting,
    running: new Map(),
    busyPartitions: new Set(),
    counts: { lost: 0 },
    config: { concurrency: 10, leaseMs: 30_000, middleware: [], describe: () => ({}) },
    store: { id: "s" },
    logger: silentLogger,
    isLogging: false,
    budget: { signal: new AbortController().signal },
    time: { usableMs: () => 60_000 },
    changed: { notify: () => {} },
  }) as unknown as RunState<QueueMessage, unknown>;

describe("the starter", () => {
  it("FUN-03 keeps what cannot start yet, also behind a message whose lease is over", () => {
    const [free, full] = [topic("free", 0), topic("full", 1)];
    const run = runWith([held(1, free, -1), held(2, full, 10_000), held(3, free, 10_000)]);
    startWaiting(run);
    expect(run.counts.lost).toBe(1);
    expect([...run.running.keys()]).toEqual([3]);
    expect(run.waiting.map(({ message }) => message.seq)).toEqual([2]);
  });
});
