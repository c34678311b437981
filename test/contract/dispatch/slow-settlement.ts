import { describe, expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { gate } from "../support/gate.js";
import { type AnyMessage, type DispatchContext, testBudget } from "./support.js";

/** Settlements that take longer than the lease, and processes that were frozen. */
export function slowSettlementTests(context: DispatchContext): void {
  describe.each(["inbox", "outbox"] as const)("slow settlements of the %s's dispatcher", (kind) => {
    it("FUN-03 IBX-078 OBX-059 a message that is claimed again while it is settled is settled under the new lease, not handled again", async () => {
      const { store, enqueue, clock, countIn } = await context.subject(kind);
      await enqueue("t", ["x"]);
      const handlerEnded = gate();
      const claimedAgain = gate();
      let handled = 0;
      let claims = 0;
      const owners = new Set<string>();
      const watched = {
        ...store,
        renew: async () => ({ changed: [], lost: [], dead: [] }), // no renewal reaches the database
        async claim(options: Parameters<typeof store.claim>[0]) {
          claims++;
          if (claims > 1) await handlerEnded.promise;
          const messages = await store.claim(options);
          if (messages.length > 0) owners.add(options.owner);
          if (claims > 1) claimedAgain.open();
          return messages;
        },
        async ack(...args: Parameters<typeof store.ack>) {
          if (owners.size === 1) {
            clock.advance(3_600_000); // the lease and its back-off end before the acknowledgement is sent
            handlerEnded.open();
            await claimedAgain.promise;
          }
          return store.ack(...args);
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({ handlers: { t: () => void handled++ } });
      expect(await dispatcher.run(watched, testBudget())).toMatchObject({ acked: 1, handled: 1 });
      expect(handled).toBe(1);
      expect(owners.size).toBe(2);
      expect(await countIn("done")).toBe(1);
    });

    it("FUN-03 IBX-078 OBX-059 the new lease of a message that is being settled is renewed, so that no other worker gets it", async () => {
      const { store, enqueue, clock, countIn } = await context.subject(kind, {
        retry: { baseMs: 1, maxMs: 1 },
      });
      await enqueue("t", ["x"]);
      const leaseMs = 1_500;
      const owners: string[] = [];
      const expired = gate();
      const claimedAgain = gate();
      const renewedLater = gate();
      let claims = 0;
      let stolen: readonly unknown[] | undefined;
      const watched = {
        ...store,
        async claim(options: Parameters<typeof store.claim>[0]) {
          if (++claims > 1) await expired.promise;
          const messages = await store.claim(options);
          if (messages.length > 0) owners.push(options.owner);
          if (owners.length > 1) claimedAgain.open();
          return messages;
        },
        async renew(...args: Parameters<typeof store.renew>) {
          if (args[0] !== owners[1]) return { changed: [], lost: [], dead: [] }; // it never reaches the database
          if (stolen === undefined) clock.advance(leaseMs / 2);
          const result = await store.renew(...args);
          renewedLater.open();
          return result;
        },
        async ack(...args: Parameters<typeof store.ack>) {
          if (args[0] !== owners[0]) return store.ack(...args);
          clock.advance(3_600_000); // the first lease ends before the acknowledgement is sent
          expired.open();
          await claimedAgain.promise;
          await renewedLater.promise;
          clock.advance(leaseMs * 0.75); // the second lease would be over, too
          stolen ??= await store.claim({ owner: newOwnerToken(), leaseMs: 30_000 });
          return store.ack(...args);
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({ leaseMs, handlers: { t: () => {} } });
      expect(await dispatcher.run(watched, testBudget())).toMatchObject({ acked: 1, handled: 1, lost: 0 });
      expect(stolen).toEqual([]);
      expect(await countIn("done")).toBe(1);
    });

    it("FUN-03 leases of messages that wait to be settled are renewed too", async () => {
      const { store, enqueue } = await context.subject(kind, { realTime: true });
      await enqueue("t", ["x"]);
      const renewed = gate<number>();
      const watched = {
        ...store,
        async ack(...args: Parameters<typeof store.ack>) {
          await renewed.promise;
          return store.ack(...args);
        },
        async renew(...args: Parameters<typeof store.renew>) {
          const result = await store.renew(...args);
          renewed.open(result.changed.length);
          return result;
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({ leaseMs: 1_500, handlers: { t: () => {} } });
      expect(await dispatcher.run(watched, testBudget())).toMatchObject({ acked: 1, lost: 0 });
      expect(await renewed.promise).toBe(1);
    });

    it("FUN-03 a process that was frozen starts no message whose lease has expired", async () => {
      const { store, enqueue, clock, countIn } = await context.subject(kind);
      await enqueue("t", ["1", "2"]);
      const leases: (Date | null)[] = [];
      const dispatcher = createDispatcher<AnyMessage>({
        concurrency: 1,
        leaseMs: 400,
        retry: { baseMs: 1, maxMs: 1 },
        handlers: {
          t(message) {
            leases.push(message.lockedUntil);
            if (leases.length > 1) return;
            clock.advance(60_000);
            const frozenUntil = performance.now() + 500;
            while (performance.now() < frozenUntil); // the whole process stands still
          },
        },
      });
      const watched = { ...store, renew: () => new Promise<never>(() => {}) };
      await dispatcher.run(watched, testBudget());
      expect(await countIn("done")).toBe(2);
      const [first, ...later] = leases;
      expect(later.length).toBeGreaterThan(0);
      for (const lease of later) expect(lease!.getTime()).toBeGreaterThan(first!.getTime());
    });

    it("FUN-03 a settlement that never returns is given up and tried again", async () => {
      const { store, enqueue, countIn } = await context.subject(kind);
      await enqueue("t", ["x"]);
      let isFirst = true;
      let signalled = 0;
      const hanging = {
        ...store,
        async ack(...args: Parameters<typeof store.ack>) {
          if (!isFirst) return store.ack(...args);
          isFirst = false;
          args[2]?.signal?.addEventListener("abort", () => signalled++);
          return new Promise<never>(() => {});
        },
      };
      const dispatcher = createDispatcher<AnyMessage>({ settleTimeoutMs: 1_000, handlers: { t: () => {} } });
      expect(await dispatcher.run(hanging, testBudget())).toMatchObject({ acked: 1 });
      expect(signalled).toBe(1);
      expect(await countIn("done")).toBe(1);
    });
  });
}
