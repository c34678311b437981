import { describe, expect, it } from "vitest";
import type { FanOut, TenantBatch } from "../../../src/app/tenants.js";
import { type LogFields, silentLogger } from "../../../src/base/logger.js";
import { timeBudget } from "../../../src/index.js";
import { fanOutDispatcher, splitIntoBatches } from "../../../src/tenants/fan-out/fan-out.js";
import {
  mergedBatches,
  tenantBatchIn,
  tenantBatchMessage,
} from "../../../src/tenants/fan-out/tenant-batch.js";
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
    async send(batch) {
      if (failures-- > 0) throw new Error("throttled");
      sent.push(batch);
    },
  };
  const dispatcher: Pick<TenantDispatcher, "run"> = {
    async run(_budget, tenants) {
      run.push(tenants!);
      return { ...nothing, left: options.left ?? [] };
    },
  };
  const clock = { nowMs: 1_000 };
  const made = fanOutDispatcher({
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
  it("FUN-07 the timer sends every tenant to exactly one worker", async () => {
    const { made, sent, run } = fanOut({ count: 1_001, tenantBatchSize: 250 });
    const report = await made.start(timeBudget(1_000));
    expect(report.tenantBatchesSent).toBe(5);
    expect(sent.flatMap((batch) => batch.tenants).sort()).toEqual(ids(1_001).sort());
    expect(Math.max(...sent.map((batch) => batch.tenants.length))).toBeLessThanOrEqual(250);
    expect(new Set(sent.map((batch) => batch.until))).toEqual(new Set([61_000]));
    expect(run).toEqual([]);
  });

  it("FUN-07 tenants that fit into one batch need no workers: the timer's invocation serves them itself", async () => {
    const { made, sent, run } = fanOut({ count: 250, tenantBatchSize: 250 });
    await made.start(timeBudget(1_000));
    expect({ sent, run }).toEqual({ sent: [], run: [ids(250)] });
  });

  it("FUN-07 a tenant batch takes any implementation of a budget", async () => {
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

  it("FUN-07 a worker sends on the tenants that it did not reach, until the next timer sends all tenants again", async () => {
    const { made, sent, clock } = fanOut({ count: 2, tenantBatchSize: 250, left: ["t1"] });
    const batch = { tenants: ["t0", "t1"], until: 61_000 };
    expect((await made.work(batch, timeBudget(1_000))).tenantBatchesSent).toBe(1);
    expect(sent).toEqual([{ tenants: ["t1"], until: 61_000 }]);
    clock.nowMs = 61_000;
    expect((await made.work(batch, timeBudget(1_000))).tenantBatchesSent).toBe(0);
    expect(sent).toHaveLength(1);
  });

  it("FUN-07 a tenant batch that is received after the next timer is dropped, so that a queue of batches cannot grow", async () => {
    const { made, run, clock } = fanOut({ count: 2, tenantBatchSize: 250 });
    const batch = { tenants: ["t0", "t1"], until: 61_000 };
    clock.nowMs = 61_000;
    expect(await made.work(batch, timeBudget(1_000))).toMatchObject({
      turns: 0,
      left: [],
      tenantBatchesSent: 0,
    });
    expect(run).toEqual([]);
    clock.nowMs = 60_999;
    await made.work(batch, timeBudget(1_000));
    expect(run).toEqual([["t0", "t1"]]);
  });

  it("FUN-07 a tenant batch that cannot be sent does not stop the others, and the next timer sends its tenants again", async () => {
    const { made, sent } = fanOut({ count: 1_000, tenantBatchSize: 250, fails: 1 });
    expect((await made.start(timeBudget(1_000))).tenantBatchesSent).toBe(3);
    await made.start(timeBudget(1_000));
    const again = sent.slice(3).flatMap((batch) => batch.tenants);
    expect(again.sort()).toEqual(ids(1_000).sort());
  });

  it("FUN-07 no tenant batch is longer than a queue's message may be, however long the keys are", () => {
    const long = Array.from({ length: 400 }, (_, index) => `${index}-${"é".repeat(200)}`);
    const batches = splitIntoBatches(long, 250);
    expect(batches.flat()).toEqual(long);
    for (const batch of batches) expect(Buffer.byteLength(JSON.stringify(batch))).toBeLessThan(48_000);
    expect(splitIntoBatches([], 10)).toEqual([]);
    expect(splitIntoBatches(ids(11), 10).map((batch) => batch.length)).toEqual([6, 5]);
  });

  it("FUN-07 reads a tenant batch as it was sent, and refuses an invalid one", () => {
    const batch = { tenants: ["a"], until: 5 };
    expect(tenantBatchIn(JSON.parse(tenantBatchMessage(batch)))).toEqual(batch);
    expect(tenantBatchIn(JSON.parse(tenantBatchMessage({ ...batch, woken: true })))).toEqual({
      ...batch,
      woken: true,
    });
    expect(tenantBatchIn({ oncebox: "wake-up" })).toBeUndefined();
    expect(tenantBatchIn(null)).toBeUndefined();
    expect(() => tenantBatchIn({ oncebox: "tenantBatch", tenantBatch: { tenants: [1], until: 5 } })).toThrow(
      /tenants/,
    );
  });

  it("FUN-07 a worker that finished nothing sends nothing on: the timer continues anyway", async () => {
    const { made, sent } = fanOut({ count: 2, tenantBatchSize: 250, left: ["t0", "t1"] });
    const batch = { tenants: ["t0", "t1"], until: 61_000 };
    expect((await made.work(batch, timeBudget(1_000))).tenantBatchesSent).toBe(0);
    expect(sent).toEqual([]);
  });

  it("FUN-06 FUN-07 the tenants of a batch that a webhook sent are polled once more after a moment", async () => {
    const { made, run } = fanOut({ count: 2, tenantBatchSize: 250 });
    await made.work({ tenants: ["t0"], until: 61_000, woken: true }, timeBudget(10_000));
    expect(run).toEqual([["t0"], ["t0"]]);
  });

  it("FUN-07 a platform that does not answer keeps no invocation beyond its time: the next timer sends the tenants again", async () => {
    const lines: [string, LogFields][] = [];
    const warn = (line: string, fields: LogFields) => void lines.push([line, fields]);
    const made = fanOutDispatcher({
      dispatcher: { run: async () => nothing },
      distinctStores: async () => ids(1_000),
      fanOut: { send: () => new Promise(() => {}) },
      logger: { ...silentLogger, warn },
    });
    expect(await made.start(timeBudget(200))).toMatchObject({ tenantBatchesSent: 0 });
    expect(lines).toEqual([["the time was over before all tenant batches were sent", { tenantBatches: 4 }]]);
  });

  it("FUN-07 a worker prepares for sending on before its time is over", async () => {
    let isReady = (): void => {};
    const ready = new Promise<void>((resolve) => {
      isReady = resolve;
    });
    const sent: TenantBatch[] = [];
    const made = fanOutDispatcher({
      dispatcher: { run: () => ready.then(() => ({ ...nothing, left: ["t1"] })) },
      distinctStores: async () => ids(2),
      fanOut: { prepare: () => isReady(), send: async (batch) => void sent.push(batch) },
    });
    const batch = { tenants: ["t0", "t1"], until: Date.now() + 60_000 };
    expect(await made.work(batch, timeBudget(2_000))).toMatchObject({ tenantBatchesSent: 1 });
    expect(sent).toEqual([{ ...batch, tenants: ["t1"] }]);
  });

  it("FUN-07 the messages of one trigger are merged into one tenant batch", () => {
    const one = { tenants: ["a", "b"], until: 5 };
    const two = { tenants: ["b", "c"], until: 7, woken: true };
    expect(mergedBatches([one, two])).toEqual([{ tenants: ["a", "b", "c"], until: 7, woken: true }]);
    expect(mergedBatches([])).toEqual([]);
  });

  it("FUN-07 tenant batches of different jobs are not merged, and dispatching comes first", () => {
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
    expect(() => tenantBatchIn({ oncebox: "tenantBatch", tenantBatch: { ...reap, job: "drop" } })).toThrow(
      /job/,
    );
  });
});
