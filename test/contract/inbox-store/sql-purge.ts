import { describe, expect, it } from "vitest";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { keysTable } from "../support/database.js";
import { acquire } from "./leases.js";
import type { SqlStoreContext } from "./sql-support.js";

const day = 86_400_000;
const source = "inbox-service";

/** Which keys clean-up removes. */
export function sqlPurgeTests({ database, freshStore }: SqlStoreContext): void {
  describe("purge", () => {
    it("SVC-08 deletes only keys that were processed or abandoned before the retention", async () => {
      const { store, inbox, clock, names, on } = await freshStore();
      const other = on(database().db, { source: "another" });
      await store.finish("old", (await acquire(store, "old")).leaseId);
      await store.markProcessed("old, marked");
      await acquire(store, "abandoned");
      await store.release("released", (await acquire(store, "released")).leaseId);
      await acquire(store, "taken again", { leaseMs: 1_000 });
      const renewed = await acquire(store, "renewed", { leaseMs: 40 * day });
      const late = await acquire(store, "released late", { leaseMs: 40 * day });
      await acquire(store, "seen again");
      await store.finish("asked again", (await acquire(store, "asked again")).leaseId);
      await acquire(other, "abandoned");
      await other.markProcessed("old");
      await inbox.enqueue(
        ["done", "ready"].map((messageId) => ({ source: "stripe", messageId, topic: "t", payload: "" })),
      );
      const owner = newOwnerToken();
      const [done] = await inbox.claim({ owner, batchSize: 1 });
      await inbox.ack(owner, [done!]);

      clock.advance(20 * day);
      expect(await store.purge()).toEqual({ purged: 0, more: false, cursor: null });
      await acquire(store, "taken again");
      await store.tryBegin("asked again");
      await store.release("released late", late.leaseId);
      await store.release("seen again", (await acquire(store, "seen again")).leaseId);
      await store.finish("recent", (await acquire(store, "recent")).leaseId);

      clock.advance(11 * day);
      expect(await store.purge()).toEqual({ purged: 4, more: false, cursor: null });
      const keys = await database().raw(`select source, "key" as k from ${keysTable(database().db, names)}`);
      expect(keys.map((row) => `${row.source === source ? "" : `${row.source}: `}${row.k}`).sort()).toEqual([
        ...["another: abandoned", "another: old", "asked again", "recent", "released late", "renewed"],
        ...["seen again", "taken again"],
      ]);
      expect((await inbox.list()).messages).toHaveLength(2);
      expect(await store.finish("renewed", renewed.leaseId)).toEqual({ status: "Processed" });
      expect(await store.inspect("abandoned")).toEqual({ status: "Unknown" });
      expect(await store.tryBegin("old")).toMatchObject({ status: "Acquired" });
    });

    it("SVC-08 deletes in batches, and continues where maxBatches stopped it", async () => {
      const { store, clock } = await freshStore();
      for (const number of [1, 2, 3]) {
        await acquire(store, `abandoned ${number}`);
        await store.markProcessed(`processed ${number}`);
      }
      clock.advance(31 * day);
      await store.markProcessed("recent");
      let purged = 0;
      let calls = 0;
      for (; calls < 20; calls++) {
        const result = await store.purge({ batchSize: 2, maxBatches: 1 });
        purged += result.purged;
        if (!result.more) break;
      }
      expect(purged).toBe(6);
      expect(calls).toBeGreaterThan(1);
      expect(await store.isProcessed("recent")).toBe(true);
      expect(await store.inspect("abandoned 1")).toEqual({ status: "Unknown" });
      expect(await store.purge({ batchSize: 1 })).toEqual({ purged: 0, more: false, cursor: null });
    });

    it("SVC-08 the retention is 30 days by default, and 7 to 30 days are allowed", async () => {
      const { store, clock, on } = await freshStore();
      const { db } = database();
      await store.markProcessed("key");
      clock.advance(7 * day);
      expect((await on(db, { retentionMs: 7 * day }).purge()).purged).toBe(0);
      clock.advance(1);
      expect((await store.purge()).purged).toBe(0);
      expect((await on(db, { retentionMs: 7 * day }).purge()).purged).toBe(1);
      for (const retentionMs of [7 * day - 1, 30 * day + 1, Number.NaN, "7d" as unknown as number]) {
        expect(() => on(db, { retentionMs }), String(retentionMs)).toThrow(/retentionMs must be from/);
      }
    });

    it("SVC-10 unknown options and an invalid source are refused when the store is created", () => {
      const { db } = database();
      expect(() => createSqlInboxStore(db, { leaseSeconds: 30 } as object)).toThrow(
        /unknown option leaseSeconds/,
      );
      expect(() => createSqlInboxStore(db, { source: "" })).toThrow(/source must be/);
      expect(() => createSqlInboxStore(db, { table: "" })).toThrow(/table must be/);
    });
  });
}
