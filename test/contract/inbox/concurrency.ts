import { describe, expect, it } from "vitest";
import type { Inbox } from "../../../src/inbox/inbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { skipUnless } from "../harness.js";
import { claimAll } from "../queue/support.js";
import { forbid, rowCount } from "../support/database.js";
import { watched } from "../support/watched.js";
import { type InboxContext, keyTexts, stored } from "./support.js";

/** Many deliveries of the same messages at once. */
export function concurrencyTests(context: InboxContext): void {
  const { database, freshInbox, message, messages } = context;

  describe("concurrency: inbox only", () => {
    it("IBX-014 of a hundred concurrent deliveries of one message one is enqueued, the others are duplicates, and one row is stored", async () => {
      const { inbox, on, names, owner } = await freshInbox();
      const inboxes = [inbox, ...Array.from({ length: 3 }, () => on(database().reopen()))];
      const incoming = message();
      const outcomes = await Promise.all(
        Array.from({ length: 100 }, (_, n) => inboxes[n % inboxes.length]!.receive(incoming)),
      );
      expect(outcomes.filter((one) => one === "enqueued")).toHaveLength(1);
      expect(outcomes.filter((one) => one === "duplicate")).toHaveLength(99);
      expect(await rowCount(database(), names.message)).toBe(1);
      expect((await stored(inbox, incoming)).deliveries).toBe(100);
      expect(await claimAll(inbox, owner)).toHaveLength(1);
      expect(await rowCount(database(), names.view)).toBe(1);
    });

    it("IBX-014 concurrent batches with the same messages in different orders enqueue each message once", async () => {
      const { inbox, on } = await freshInbox();
      const inboxes = [inbox, ...Array.from({ length: 3 }, () => on(database().reopen()))];
      const batch = messages(50);
      const orders = [batch, [...batch].reverse(), [...batch.slice(25), ...batch.slice(0, 25)], batch];
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, (_, n) => inboxes[n % inboxes.length]!.enqueue(orders[n % orders.length]!)),
      );
      const all = outcomes.flat();
      expect(all.filter((one) => one === "enqueued")).toHaveLength(50);
      expect(all.filter((one) => one === "duplicate")).toHaveLength(350);
      expect((await inbox.stats()).counts.Processing).toBe(50);
    });

    it("IBX-014 concurrent deliveries of a Seen message enqueue it once", async () => {
      const { inbox, on, owner } = await freshInbox();
      const other = on(database().reopen());
      const incoming = message();
      await inbox.alreadyProcessed(incoming);
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, n) => (n % 2 ? inbox : other).receive(incoming)),
      );
      expect(outcomes.filter((one) => one === "enqueued")).toHaveLength(1);
      expect(outcomes.filter((one) => one === "duplicate")).toHaveLength(19);
      expect(await claimAll(inbox, owner)).toHaveLength(1);
    });

    it("IBX-102 a batch that contains a key twice is enqueued whole or not at all", async () => {
      const { inbox, names } = await freshInbox();
      await forbid(database(), names, "message", "insert", "topic <> 'forbidden'");
      const twice = message();
      await expect(inbox.enqueue([message(), twice, { ...twice, topic: "forbidden" }])).rejects.toThrow();
      expect(await rowCount(database(), names.message)).toBe(0);
      expect(await rowCount(database(), names.state)).toBe(0);
    });

    it("IBX-102 a check or a mark writes a message and its state together or not at all", async () => {
      const { inbox, names } = await freshInbox();
      await forbid(database(), names, "state", "insert", "attempt <> 0");
      await expect(inbox.alreadyProcessed(message())).rejects.toThrow();
      await expect(inbox.markProcessed(message())).rejects.toThrow();
      expect(await rowCount(database(), names.message)).toBe(0);
      expect(await rowCount(database(), names.state)).toBe(0);
    });

    it("IBX-014 IBX-105 two receivers get the same messages while workers run, and nothing is lost or handled twice", async () => {
      const { on, inbox } = await freshInbox({ realTime: true });
      const all = messages(300);
      const handled: string[] = [];
      let producing = true;
      const produce = async (one: Inbox) => {
        for (let n = 0; n < all.length; n += 10) await one.enqueue(all.slice(n, n + 10));
      };
      const consume = async (one: Inbox) => {
        const owner = newOwnerToken();
        for (;;) {
          const last = !producing;
          const batch = await one.claim({ owner, batchSize: 7, leaseMs: 300_000 });
          const [back, ...rest] = batch;
          if (batch.length === 0 && last) return;
          // a worker that stops releases what it has not started
          const kept = batch.length === 7 ? rest : batch;
          if (back !== undefined && batch.length === 7) await one.release(owner, [back]);
          const { changed } = await one.ack(owner, kept);
          handled.push(...keyTexts(changed));
        }
      };
      const producers = [1, 2].map(() => produce(on(database().reopen())));
      const consumers = [1, 2, 3].map(() => consume(on(database().reopen())));
      await Promise.all(producers);
      producing = false;
      await Promise.all(consumers);

      const left = await claimAll(inbox, newOwnerToken());
      expect([...handled, ...keyTexts(left)].sort()).toEqual(keyTexts(all));
    });

    it("IBX-121 each delivery of a burst gets its outcome, and deliveries to a server share round trips", async () => {
      const { on, names, owner } = await freshInbox({ realTime: true });
      const db = watched(database().db);
      const inbox = on(db);
      const burst = messages(100);
      const twice = burst.slice(0, 50).map((one) => ({ ...one }));
      const other = { ...burst[99]!, payload: "other", hash: new Uint8Array([2]) };
      await inbox.receive({ ...burst[99]!, hash: new Uint8Array([1]) });
      db.calls.length = 0;
      const outcomes = await Promise.all(
        [...burst.slice(0, 99), other, ...twice].map((one) => inbox.receive(one)),
      );
      expect(outcomes.filter((outcome) => outcome === "enqueued")).toHaveLength(99);
      expect(outcomes.filter((outcome) => outcome === "duplicate")).toHaveLength(50);
      expect(outcomes[99]).toBe("conflict");
      for (let n = 0; n < 50; n++)
        expect([outcomes[n], outcomes[100 + n]].sort()).toEqual(["duplicate", "enqueued"]);
      if (db.dialect.embedded) expect(db.calls).toHaveLength(150);
      else expect(db.calls.length).toBeLessThan(50);
      expect(await rowCount(database(), names.message)).toBe(100);
      const claimed = await claimAll(inbox, owner);
      expect(claimed.map((one) => one.payload).sort()).toEqual(
        [...burst.slice(0, 99), other].map((one) => one.payload).sort(),
      );
    });

    it("IBX-104 deliveries that wait for a locked message do not hold up others once they are given up", async (test) => {
      skipUnless(test, database(), "concurrentWriters");
      const { inbox } = await freshInbox({ realTime: true });
      const locked = messages(8);
      const other = await database().begin();
      try {
        await inbox.enqueue(locked, { tx: other.tx });
        const giveUp = Array.from({ length: 8 }, () => new AbortController());
        const receive = (one: (typeof locked)[number], n: number) =>
          inbox.receive(one, { signal: giveUp[n]!.signal });
        const single = locked.slice(0, 4).map(receive);
        const groups: Promise<unknown>[] = [];
        for (let n = 0; n < 4; n++) {
          groups.push(receive(locked[4 + n]!, 4 + n), receive(message(), 4 + n));
          giveUp[n]!.abort(new Error("gave up"));
          await expect(single[n]).rejects.toThrow("gave up");
        }
        for (const one of giveUp.slice(4)) one.abort(new Error("gave up"));
        for (const one of await Promise.allSettled(groups)) expect(one.status).toBe("rejected");
        expect(await inbox.receive(message())).toBe("enqueued");
      } finally {
        await other.rollback();
      }
    });

    it("IBX-102 a duplicate and a check are one round trip each", async () => {
      const { on } = await freshInbox();
      const db = watched(database().db);
      const incoming = message();
      await on(db).receive(incoming);
      await on(db).receive(incoming);
      await on(db).alreadyProcessed(incoming);
      expect(db.calls).toHaveLength(3);
      expect(db.calls).not.toContain("transaction");
    });
  });
}
