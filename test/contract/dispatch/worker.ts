import { afterEach, describe, expect, it, vi } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { createWorker } from "../../../src/dispatch/worker.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { purgeWithin, reapWithin } from "../../../src/queue/maintenance.js";
import { queueKinds } from "../queue/set-up.js";
import { gate } from "../support/gate.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

/** Scheduled maintenance, and the resident worker. */
export function workerTests(context: DispatchContext): void {
  describe.each(queueKinds)("maintenance and worker of the %s", (kind) => {
    afterEach(() => {
      vi.useRealTimers();
    });

    it("IBX-098 IBX-101 MID-10 FUN-04 reap and clean-up work batch by batch while there is time", async () => {
      const { store, enqueue, clock, countIn } = await context.subject(kind);
      await enqueue("t", Array.from({ length: 10 }, String));
      await store.claim({ owner: newOwnerToken(), leaseMs: 1_000 });
      clock.advance(2_000);
      expect(await reapWithin(store, testBudget(0), { batchSize: 3 })).toEqual({
        done: 0,
        dead: 0,
        more: true,
      });
      expect(await reapWithin(store, testBudget(), { batchSize: 3 })).toEqual({
        done: 10,
        dead: 0,
        more: false,
      });
      clock.advance(60_000);
      await createDispatcher<AnyMessage>({ handlers: { t: () => {} } }).run(store, testBudget());
      expect(await countIn("done")).toBe(10);
      clock.advance(1_000);
      await enqueue("t", ["young"]);
      clock.advance(8 * 24 * 3_600_000);
      const week = 7 * 24 * 3_600_000;
      expect(await purgeWithin(store, testBudget(0), { batchSize: 3, retentionMs: week })).toMatchObject({
        done: 0,
        more: true,
      });
      expect(await purgeWithin(store, testBudget(), { batchSize: 3, retentionMs: week })).toMatchObject({
        done: 10,
        more: false,
      });
      expect(await countIn("pending")).toBe(1);
    });

    it("IBX-072 OBX-053 the worker reaps when it starts, and regularly after that", async () => {
      const { store, enqueue, clock } = await context.subject(kind);
      const reaps: number[] = [];
      const total = () => reaps.reduce((sum, reaped) => sum + reaped, 0);
      const watched = {
        ...store,
        claim: async () => [], // a claim would find the lost lease before the reaper
        async reapExpired(options: Parameters<typeof store.reapExpired>[0]) {
          const result = await store.reapExpired(options);
          reaps.push(result.reaped);
          return result;
        },
      };
      const crash = async () => {
        expect(await store.claim({ owner: newOwnerToken(), leaseMs: 30_000 })).toHaveLength(1);
        clock.advance(40_000);
      };
      await enqueue("t", ["x"]);
      await crash();
      const worker = createWorker({
        handlers: { t: () => {} },
        store: watched,
        reapMs: 20,
      });
      await expect.poll(total).toBe(1);
      expect(reaps[0]).toBe(1);
      clock.advance(60_000);
      await crash();
      await expect.poll(total).toBe(2);
      await worker.stop();
    });

    it("IBX-072 OBX-053 the worker reaps every 60 s by default", async () => {
      const { store } = await context.subject(kind);
      const timers = vi.spyOn(globalThis, "setTimeout");
      const reaped = gate();
      const worker = createWorker({
        handlers: { t: () => {} },
        store: {
          ...store,
          async reapExpired(options: Parameters<typeof store.reapExpired>[0]) {
            const result = await store.reapExpired(options);
            reaped.open();
            return result;
          },
        },
      });
      await reaped.promise;
      await expect.poll(() => timers.mock.calls.some(([, ms]) => ms === 60_000)).toBe(true);
      timers.mockRestore();
      await worker.stop();
    });

    it("a wake-up ends the wait for the next poll at once", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      const polled = gate();
      const handled = gate();
      let wake = (): void => {};
      const worker = createWorker({
        handlers: { t: () => handled.open() },
        store: {
          ...store,
          async claim(options: Parameters<typeof store.claim>[0]) {
            const messages = await store.claim(options);
            polled.open();
            return messages;
          },
        },
        pollMs: 24 * 3_600_000, // only a wake-up ends this
        wakeUp: async (wakeWorker) => {
          wake = wakeWorker;
          return async () => {};
        },
      });
      await polled.promise;
      await enqueue("t", ["x"]);
      wake();
      await handled.promise;
      await worker.stop();
      expect(await countIn("done")).toBe(1);
    });

    it("MID-09 stopping lets running handlers finish and settles them", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue("t", Array.from({ length: 5 }, String));
      const started = gate();
      const mayEnd = gate();
      const worker = createWorker({
        concurrency: 2,
        handlers: {
          async t() {
            started.open();
            await mayEnd.promise;
          },
        },
        store,
      });
      await started.promise;
      const stopped = worker.stop();
      mayEnd.open();
      await stopped;
      expect(await countIn("done")).toBe(2);
      for (const message of (await store.list()).messages.filter((one) => one.processedAt === null)) {
        expect(message).toMatchObject({ attempt: 0, owner: null });
      }
    });

    it("survives a database that is away, and continues when it is back", async () => {
      const { store, enqueue, countIn, logger, logs } = await context.subject(kind);
      await enqueue("t", ["x"]);
      let claims = 0;
      const handled = gate();
      const flaky = {
        ...store,
        claim: (options: Parameters<typeof store.claim>[0]) => {
          if (++claims <= 2) throw new Error("away");
          return store.claim(options);
        },
      };
      const worker = createWorker({
        handlers: { t: () => handled.open() },
        store: flaky,
        logger,
        pollMs: 1,
      });
      await handled.promise;
      await worker.stop();
      expect(await countIn("done")).toBe(1);
      expect(
        logs.filter((line) => line.level === "error" && line.message === "dispatch failed"),
      ).toHaveLength(2);
    });
  });
}
