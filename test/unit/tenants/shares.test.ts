import { describe, expect, it } from "vitest";
import { type LogFields, silentLogger } from "../../../src/base/logger.js";
import { timeBudget } from "../../../src/index.js";
import { splitIntoBatches } from "../../../src/tenants/fan-out/fan-out-job.js";
import {
  mergedBatches,
  tenantBatchIn,
  tenantBatchMessage,
} from "../../../src/tenants/fan-out/tenant-batch.js";
import { createFanOutDispatcher, type FanOut, type TenantBatch } from "../../../src/tenants/index.js";
import type {
  TenantDispatcher,
  TenantDispatchReport,
} from "../../../src/tenants/scheduling/tenant-dispatcher.js";

const ids = (count: number) => Array.from({ length: count }, (_, index) => `t${index}`);
const nothing: TenantDispatchReport = {
  inbox: null,
  outbox: null,
  turns: 0,
  failed: [],
  quarantined: [],
  left: [],
};

function fanOut(options: {
  count: number;
  tenantBatchSize: number;
  left?: readonly string[];
  fails?: number;
}) {
  const sent: TenantBatch[] = [];
  const run: (readonly string[])[] = [];
  let failures = options.fails ?? 0;
  const transport: FanOut = {
    async send(share) {
      if (failures-- > 0) throw new Error("throttled");
      sent.push(share);
    },
  };
  const dispatcher: TenantDispatcher = {
    async run(_budget, tenants) {
      run.push(tenants!);
      return { ...nothing, left: options.left ?? [] };
    },
    each: async () => nothing,
  };
  const clock = { nowMs: 1_000 };
  const made = createFanOutDispatcher({
    dispatcher,
    distinctStores: async () => ids(options.count),
    fanOut: transport,
    tenantBatchSize: options.tenantBatchSize,
    periodMs: 60_000,
    now: () => clock.nowMs,
  });
  return { made, sent, run, clock };
}

describe("fan-out", () => {
  it("FUN-07 the timer hands every tenant to exactly one worker", async () => {
    const { made, sent, run } = fanOut({ count: 1_001, tenantBatchSize: 250 });
    const report = await made.start(timeBudget(1_000));
    expect(report.handedOut).toBe(5);
    expect(sent.flatMap((share) => share.tenants).sort()).toEqual(ids(1_001).sort());
    expect(Math.max(...sent.map((share) => share.tenants.length))).toBeLessThanOrEqual(250);
    expect(new Set(sent.map((share) => share.until))).toEqual(new Set([61_000]));
    expect(run).toEqual([]);
  });

  it("FUN-07 a small installation needs no transport: the timer does the work itself", async () => {
    const { made, sent, run } = fanOut({ count: 250, tenantBatchSize: 250 });
    await made.start(timeBudget(1_000));
    expect({ sent, run }).toEqual({ sent: [], run: [ids(250)] });
  });

  it("FUN-07 a share is worked on within a budget of the caller's own, whatever it is made of", async () => {
    const own = {
      signal: new AbortController().signal,
      leftMs: 10_000,
      remainingMs() {
        return this.leftMs;
      },
    };
    const { made, run } = fanOut({ count: 1, tenantBatchSize: 250 });
    await made.work({ tenants: ["t0"], until: 61_000 }, own);
    expect(run).toEqual([["t0"]]);
  });

  it("FUN-07 a worker hands on what it did not reach, until the next timer has handed out everything anew", async () => {
    const { made, sent, clock } = fanOut({ count: 2, tenantBatchSize: 250, left: ["t1"] });
    const share = { tenants: ["t0", "t1"], until: 61_000 };
    expect((await made.work(share, timeBudget(1_000))).handedOut).toBe(1);
    expect(sent).toEqual([{ tenants: ["t1"], until: 61_000 }]);
    clock.nowMs = 61_000;
    expect((await made.work(share, timeBudget(1_000))).handedOut).toBe(0);
    expect(sent).toHaveLength(1);
  });

  it("FUN-07 a share that waited until the next timer has handed out everything anew is not worked on: a queue that is too long ends", async () => {
    const { made, run, clock } = fanOut({ count: 2, tenantBatchSize: 250 });
    const share = { tenants: ["t0", "t1"], until: 61_000 };
    clock.nowMs = 61_000;
    expect(await made.work(share, timeBudget(1_000))).toMatchObject({ turns: 0, left: [], handedOut: 0 });
    expect(run).toEqual([]);
    clock.nowMs = 60_999;
    await made.work(share, timeBudget(1_000));
    expect(run).toEqual([["t0", "t1"]]);
  });

  it("FUN-07 a share that cannot be sent does not keep the others, and the next timer makes it again", async () => {
    const { made, sent } = fanOut({ count: 1_000, tenantBatchSize: 250, fails: 1 });
    expect((await made.start(timeBudget(1_000))).handedOut).toBe(3);
    await made.start(timeBudget(1_000));
    const again = sent.slice(3).flatMap((share) => share.tenants);
    expect(again.sort()).toEqual(ids(1_000).sort());
  });

  it("FUN-07 no share is longer than a queue's message may be, however long the keys are", () => {
    const long = Array.from({ length: 400 }, (_, index) => `${index}-${"é".repeat(200)}`);
    const shares = splitIntoBatches(long, 250);
    expect(shares.flat()).toEqual(long);
    for (const share of shares) expect(Buffer.byteLength(JSON.stringify(share))).toBeLessThan(48_000);
    expect(splitIntoBatches([], 10)).toEqual([]);
    expect(splitIntoBatches(ids(11), 10).map((share) => share.length)).toEqual([6, 5]);
  });

  it("FUN-07 reads a share as it was sent, and refuses what only looks like one", () => {
    const share = { tenants: ["a"], until: 5 };
    expect(tenantBatchIn(JSON.parse(tenantBatchMessage(share)))).toEqual(share);
    expect(tenantBatchIn(JSON.parse(tenantBatchMessage({ ...share, woken: true })))).toEqual({
      ...share,
      woken: true,
    });
    expect(tenantBatchIn({ oncebox: "wake-up" })).toBeUndefined();
    expect(tenantBatchIn(null)).toBeUndefined();
    expect(() => tenantBatchIn({ oncebox: "share", share: { tenants: [1], until: 5 } })).toThrow(/tenants/);
  });

  it("FUN-07 a worker that could move nothing hands nothing on: the timer comes by anyway", async () => {
    const { made, sent } = fanOut({ count: 2, tenantBatchSize: 250, left: ["t0", "t1"] });
    const share = { tenants: ["t0", "t1"], until: 61_000 };
    expect((await made.work(share, timeBudget(1_000))).handedOut).toBe(0);
    expect(sent).toEqual([]);
  });

  it("FUN-06 FUN-07 a share that a webhook sent is looked at once more after a moment", async () => {
    const { made, run } = fanOut({ count: 2, tenantBatchSize: 250 });
    await made.work({ tenants: ["t0"], until: 61_000, woken: true }, timeBudget(10_000));
    expect(run).toEqual([["t0"], ["t0"]]);
  });

  it("FUN-07 a platform that does not answer keeps nobody beyond his time: the next timer makes the shares again", async () => {
    const lines: [string, LogFields][] = [];
    const warn = (line: string, fields: LogFields) => void lines.push([line, fields]);
    const made = createFanOutDispatcher({
      dispatcher: { run: async () => nothing },
      distinctStores: async () => ids(1_000),
      fanOut: { send: () => new Promise(() => {}) },
      logger: { ...silentLogger, warn },
    });
    expect(await made.start(timeBudget(200))).toMatchObject({ handedOut: 0 });
    expect(lines).toEqual([["shares of tenants were not handed out in time", { shares: 4 }]]);
  });

  it("FUN-07 a worker gets ready to hand on before its time is over", async () => {
    let isReady = (): void => {};
    const ready = new Promise<void>((resolve) => {
      isReady = resolve;
    });
    const sent: TenantBatch[] = [];
    const made = createFanOutDispatcher({
      dispatcher: { run: () => ready.then(() => ({ ...nothing, left: ["t1"] })) },
      distinctStores: async () => ids(2),
      fanOut: { prepare: () => isReady(), send: async (share) => void sent.push(share) },
    });
    const share = { tenants: ["t0", "t1"], until: Date.now() + 60_000 };
    expect(await made.work(share, timeBudget(2_000))).toMatchObject({ handedOut: 1 });
    expect(sent).toEqual([{ ...share, tenants: ["t1"] }]);
  });

  it("FUN-07 the messages of a batch are one share", () => {
    const one = { tenants: ["a", "b"], until: 5 };
    const two = { tenants: ["b", "c"], until: 7, woken: true };
    expect(mergedBatches([one, two])).toEqual([{ tenants: ["a", "b", "c"], until: 7, woken: true }]);
    expect(mergedBatches([])).toEqual([]);
  });

  it("FUN-07 shares of different jobs stay apart in a batch, and messages are handled first", () => {
    const reap = { tenants: ["a"], until: 5, job: "reap" } as const;
    const cleanup = { tenants: ["a"], until: 5, job: "cleanup" } as const;
    const dispatch = { tenants: ["b"], until: 6 };
    const more = { tenants: ["c"], until: 9, job: "reap" } as const;
    expect(mergedBatches([cleanup, reap, dispatch, more])).toEqual([
      dispatch,
      { tenants: ["a", "c"], until: 9, job: "reap" },
      cleanup,
    ]);
    expect(tenantBatchIn(JSON.parse(tenantBatchMessage(reap)))).toEqual(reap);
    expect(() => tenantBatchIn({ oncebox: "share", share: { ...reap, job: "drop" } })).toThrow(/job/);
  });
});
