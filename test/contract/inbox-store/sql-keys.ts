import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { InboxKey } from "../../../src/queue/message.js";
import { skipUnless } from "../harness.js";
import { keysTable, rowCount, untilBlocked } from "../support/database.js";
import { brokenConnection, watched } from "../support/watched.js";
import { acquire } from "./leases.js";
import type { FreshStore, SqlStoreContext } from "./sql-support.js";

const day = 86_400_000;
const source = "inbox-service";
const keyOf = (messageId: string): InboxKey => ({ source, messageId });
const incoming = (messageId: string) => ({ ...keyOf(messageId), topic: "order.placed", payload: "{}" });

/** The keys of a store, in a table beside the messages of an inbox. */
export function sqlKeyTests({ database, freshStore }: SqlStoreContext): void {
  /** Keys in each state that an inbox store knows. */
  const allStates = async (): Promise<FreshStore> => {
    const fresh = await freshStore();
    const { store, clock } = fresh;
    await acquire(store, "1-expired", { leaseMs: 1_000 });
    clock.advance(1_000);
    await acquire(store, "2-leased");
    await store.release("3-released", (await acquire(store, "3-released")).leaseId);
    await store.finish("4-finished", (await acquire(store, "4-finished")).leaseId);
    return fresh;
  };

  const everyKey = async ({ names }: FreshStore) =>
    database().raw(`select * from ${keysTable(database().db, names)} order by first_seen_at, source`);

  describe("keys beside messages", () => {
    it("SVC-10 the inbox neither shows, claims, reaps, expires, purges nor replays a key", async () => {
      const fresh = await allStates();
      const { inbox, clock, store } = fresh;
      const before = await everyKey(fresh);
      expect(before).toHaveLength(4);
      for (const _ of ["now", "much later"]) {
        expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
        expect(await inbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
        expect((await inbox.replay(["1-expired", "2-leased"].map(keyOf))).changed).toEqual([]);
        expect(await inbox.purgeDone()).toMatchObject({ purged: 0 });
        expect(await inbox.stats()).toMatchObject({ counts: { Seen: 0, Processing: 0, Done: 0, Dead: 0 } });
        expect((await inbox.list()).messages).toEqual([]);
        expect(await inbox.get(keyOf("4-finished"))).toBeNull();
        expect(await everyKey(fresh)).toEqual(before);
        clock.advance(3_650 * day);
      }
      expect(await store.purge()).toMatchObject({ purged: 4 });
    });

    it("SVC-10 a message and a key of the same name are independent", async () => {
      const { store, inbox } = await freshStore();
      const { leaseId } = await acquire(store, "key");
      expect(await inbox.receive(incoming("key"))).toBe("enqueued");
      const owner = newOwnerToken();
      expect(await inbox.ack(owner, await inbox.claim({ owner }))).toMatchObject({ lost: [] });
      expect(await store.inspect("key")).toMatchObject({ status: "Leased" });
      expect(await store.finish("key", leaseId)).toEqual({ status: "Processed" });
      await inbox.receive(incoming("another"));
      await inbox.markDead(keyOf("another"), "by hand");
      expect(await store.tryBegin("another")).toMatchObject({ status: "Acquired" });
      expect((await inbox.get(keyOf("another")))!.state).toBe("Dead");
    });

    it("SVC-01 isProcessed and inspect write nothing", async () => {
      const fresh = await allStates();
      const before = await everyKey(fresh);
      fresh.clock.advance(day);
      for (const key of ["1-expired", "2-leased", "3-released", "4-finished", "unknown"]) {
        expect(await fresh.store.isProcessed(key)).toBe(key === "4-finished");
        await fresh.store.inspect(key);
      }
      expect(await everyKey(fresh)).toEqual(before);
    });

    it("SVC-10 stores with other sources do not share keys", async () => {
      const { store, on } = await freshStore();
      const other = on(database().db, { source: "another service" });
      const { leaseId } = await acquire(store, "key");
      const theirs = await acquire(other, "key");
      expect(await other.finish("key", leaseId)).toEqual({ status: "LeaseLost" });
      expect(await other.finish("key", theirs.leaseId)).toEqual({ status: "Processed" });
      expect(await store.isProcessed("key")).toBe(false);
    });
  });

  describe("round trips and faults", () => {
    it("SVC-03 each call is one round trip, and a refused key none", async () => {
      const { on, names } = await freshStore();
      const db = watched(database().db);
      const store = on(db);
      await expect(store.tryBegin("bad\u0007key")).rejects.toThrow(/key must not contain control characters/);
      await expect(store.markProcessed("k".repeat(256))).rejects.toThrow(/key has 256 characters/);
      expect(db.calls).toEqual([]);
      expect(await rowCount(database(), keysTable(database().db, names))).toBe(0);
      const { leaseId } = await acquire(store, "key");
      await store.renew("key", leaseId, 60_000);
      await store.inspect("key");
      await store.finish("key", leaseId);
      await store.isProcessed("key");
      await store.tryBegin("key");
      await store.release("key", leaseId);
      await store.markProcessed("key");
      expect(db.calls).toHaveLength(8);
    });

    it("SVC-03 a tryBegin or finish whose result was lost is repeated and finds its own lease", async () => {
      const { on } = await freshStore();
      const { db } = database();
      const losing = () => on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const { leaseId } = await acquire(losing(), "key");
      expect(await on(db).inspect("key")).toMatchObject({ status: "Leased", attempts: 1 });
      expect(await losing().renew("key", leaseId, 60_000)).toMatchObject({ status: "Renewed" });
      expect(await losing().finish("key", leaseId)).toEqual({ status: "Processed" });
    });

    it("SVC-03 tryBegin waits for a transaction that inserts the same key, and returns by its commit or rollback", async (test) => {
      skipUnless(test, database(), "visibleLockWaits");
      const { store, clock, names } = await freshStore();
      const { dialect } = database().db;
      for (const [end, status] of [
        ["commit", "Processed"],
        ["rollback", "Acquired"],
      ] as const) {
        const other = await database().begin();
        await other.tx.query(dialect.keys(names).markKey, { source, key: end, now: dialect.toTime(clock()) });
        const begun = store.tryBegin(end);
        await untilBlocked(database(), begun, `${names.table}_try_begin`);
        await other[end]();
        expect(await begun, end).toMatchObject({ status });
      }
    });
  });
}
