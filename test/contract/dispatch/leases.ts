import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { LeaseLostError, newOwnerToken } from "../../../src/queue/leases.js";
import type { DispatchStore } from "../../../src/queue/work-store.js";
import type { TestClock } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { gate } from "../support/gate.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

/** A worker claims everything and dies. The clock advances until its messages are claimable again. */
async function crash(store: Pick<DispatchStore<AnyMessage>, "claim">, clock: TestClock): Promise<void> {
  expect(await store.claim({ owner: newOwnerToken(), leaseMs: 1_000 })).not.toEqual([]);
  clock.advance(60_000);
}

/** Renewal, lost leases, crashes. */
export function leaseTests(context: DispatchContext): void {
  describe.each(queueKinds)("leases of the %s's dispatcher", (kind) => {
    it("FUN-03 renews the leases of long-running handlers, all in one call", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue("t", ["1", "2", "3"]);
      const renewed = gate<number>();
      const watched = {
        ...store,
        renew: async (...args: Parameters<typeof store.renew>) => {
          const result = await store.renew(...args);
          renewed.open(result.changed.length);
          return result;
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({
        leaseMs: 1_500,
        handlers: { t: async () => void (await renewed.promise) },
      });
      expect(await dispatcher.run(watched, testBudget())).toMatchObject({ acked: 3, lost: 0 });
      expect(await renewed.promise).toBe(3);
      expect(await countIn("done")).toBe(3);
    });

    it("FUN-03 aborts a handler whose lease was lost and does not settle its message", async () => {
      const { store, enqueue, clock } = await context.subject(kind);
      await enqueue("t", ["x"]);
      const thief = newOwnerToken();
      const stolen = gate();
      let claims = 0;
      const slow = {
        ...store,
        claim: async (options: Parameters<typeof store.claim>[0]) =>
          ++claims === 1 ? store.claim(options) : [],
        renew: async (...args: Parameters<typeof store.renew>) => {
          await stolen.promise; // a renewal in time would keep the lease
          return store.renew(...args);
        },
      };
      let reason: unknown;
      const dispatcher = createDispatcher<AnyMessage>({
        leaseMs: 1_500,
        handlers: {
          async t(_message, { signal }) {
            clock.advance(60_000); // the lease is over, and its back-off too
            expect(await store.claim({ owner: thief, leaseMs: 30_000 })).toHaveLength(1);
            stolen.open();
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
            reason = signal.reason;
            throw signal.reason;
          },
        },
      });
      expect(await dispatcher.run(slow, testBudget())).toMatchObject({ acked: 0, abandoned: 0, lost: 1 });
      expect(reason).toBeInstanceOf(LeaseLostError);
      const held = (await store.list()).messages[0]!;
      expect(held).toMatchObject({ owner: thief, attempt: 1 });
    });

    it("IBX-078 OBX-059 does not handle a message again while a handler that lost its lease still runs", async () => {
      const { store, enqueue, clock, countIn } = await context.subject(kind);
      await enqueue("t", ["x"]);
      const expired = gate();
      const aborted = gate();
      let claims = 0;
      const watched = {
        ...store,
        async claim(options: Parameters<typeof store.claim>[0]) {
          if (++claims > 1) await expired.promise; // the claim ahead comes when the lease is over
          return store.claim(options);
        },
        async renew(...args: Parameters<typeof store.renew>) {
          await aborted.promise; // a renewal in time would keep the lease
          return store.renew(...args);
        },
      };
      let active = 0;
      let overlapped = false;
      const attempts: number[] = [];
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          async t(message, { signal }) {
            overlapped ||= active > 0;
            active++;
            attempts.push(message.attempt);
            if (message.attempt === 0) {
              clock.advance(3_600_000);
              expired.open();
              await new Promise((resolve) => signal.addEventListener("abort", resolve));
              aborted.open();
              await new Promise((resolve) => setImmediate(resolve));
            }
            active--;
          },
        },
      });
      expect(await dispatcher.run(watched, testBudget())).toMatchObject({ lost: 1, acked: 1 });
      expect(overlapped).toBe(false);
      expect(attempts).toEqual([0, 1]);
      expect(await countIn("done")).toBe(1);
    });

    it("ADD-11 a message that crashed twice is handled by itself: the run holds no other meanwhile", async () => {
      const { store, enqueue, clock, countIn } = await context.subject(kind);
      await enqueue("suspect", ["x"]);
      await crash(store, clock);
      await crash(store, clock);
      await enqueue("t", Array.from({ length: 20 }, String));
      const heldMeanwhile: number[] = [];
      let active = 0;
      let mostWithSuspect = 0;
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: {
          async suspect(message) {
            active++;
            expect(message).toMatchObject({ crashes: 2, attempt: 2 });
            const { messages } = await store.list({ limit: 100 });
            heldMeanwhile.push(messages.filter((other) => other.owner !== null).length);
            mostWithSuspect = Math.max(mostWithSuspect, active);
            active--;
          },
          async t() {
            active++;
            await new Promise((resolve) => setImmediate(resolve));
            active--;
          },
        },
      });
      expect(await dispatcher.run(store, testBudget())).toMatchObject({ acked: 21 });
      expect(heldMeanwhile).toEqual([1]);
      expect(mostWithSuspect).toBe(1);
      expect(await countIn("done")).toBe(21);
    });

    it("ADD-11 a message that crashed twice and is claimed while others run waits for them", async () => {
      const { store, enqueue, clock } = await context.subject(kind);
      await enqueue("suspect", ["x"]);
      await crash(store, clock);
      await store.claim({ owner: newOwnerToken(), leaseMs: 10_000 });
      await enqueue("t", Array.from({ length: 12 }, String));
      let active = 0;
      let overlapped = false;
      const dispatcher = createDispatcher<AnyMessage>({
        batchSize: 4,
        concurrency: 4,
        leaseMs: 600_000, // longer than all of it by the test's clock: no other lease may end before a slow database settles
        handlers: {
          async suspect() {
            overlapped ||= active > 0;
          },
          async t() {
            active++;
            clock.advance(10_000); // meanwhile the suspect's lease ends, and its back-off
            await new Promise((resolve) => setTimeout(resolve, 1));
            active--;
          },
        },
      });
      const result = await dispatcher.run(store, testBudget());
      expect(result.acked).toBe(13);
      expect(overlapped).toBe(false);
    });

    it("ADD-12 the messages of a topic get its longer lease", async () => {
      const { store, enqueue, clock } = await context.subject(kind);
      await enqueue("long", ["x"]);
      const renewed = gate<Date>();
      const watched = {
        ...store,
        renew: async (...args: Parameters<typeof store.renew>) => {
          const result = await store.renew(...args);
          renewed.open((await store.list()).messages[0]!.lockedUntil!);
          return result;
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({
        handlers: { long: { leaseMs: 90_000, handle: async () => void (await renewed.promise) } },
      });
      await dispatcher.run(watched, testBudget());
      expect((await renewed.promise).getTime()).toBe(clock().getTime() + 90_000);
    });
  });
}
