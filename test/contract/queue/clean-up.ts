import { describe, expect, it } from "vitest";
import { ArgumentRangeError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { PurgeResult } from "../../../src/queue/work-store.js";
import { rowCount } from "../support/database.js";
import { messages, type QueueContext } from "./support.js";

const day = 86_400_000;
const nothingPurged = { purged: 0, more: false, cursor: null };

/** `purgeDone`: which rows it deletes, when, and how many at a time. */
export function cleanUpTests({ database, queue, ids, keyOf, counts, states }: QueueContext): void {
  describe("clean-up", () => {
    it("IBX-098 MID-10 purgeDone removes the message row and the state row of a done message", async () => {
      const { store, owner, clock, names, held, stored } = await queue();
      const [done, leased] = await held(2);
      await store.ack(owner, [done!]);
      clock.advance(2 * day);
      expect(await store.purgeDone({ retentionMs: day })).toEqual({ purged: 1, more: false, cursor: null });
      expect(await store.get(keyOf(done!))).toBeNull();
      expect(await rowCount(database(), names.message)).toBe(1);
      expect(await rowCount(database(), names.state)).toBe(1);
      expect(await stored(leased!)).toEqual(leased);
    });

    it("IBX-099 MID-10 purgeDone keeps every message that is not done, however old", async () => {
      const { store, owner, clock, names, held, stored } = await queue();
      const [done, dead, retried, leased] = await held(4);
      await store.ack(owner, [done!]);
      await store.fail(owner, [dead!], "no");
      await store.abandon(owner, [retried!]);
      const [fresh] = await store.add(messages(1));
      const kept = [dead!, retried!, leased!, fresh!];
      const before = await Promise.all(kept.map((key) => stored(key)));

      clock.advance(3_650 * day);
      expect(await store.purgeDone({ retentionMs: 1 })).toEqual({ purged: 1, more: false, cursor: null });
      expect(await store.get(keyOf(done!))).toBeNull();
      expect(await Promise.all(kept.map((key) => stored(key)))).toEqual(before);
      const left = (await store.list()).messages;
      expect(left).toHaveLength(4);
      expect(left.some((message) => message.state === states.done)).toBe(false);
      const orphans = `${names.state} where seq not in (select seq from ${names.message})`;
      expect(await rowCount(database(), orphans)).toBe(0);
    });

    it("IBX-100 MID-10 the retention is an option and counts from when the message was done", async () => {
      const { store, owner, clock } = await queue();
      await store.add(messages(1));
      clock.advance(10 * day);
      await store.ack(owner, await store.claim({ owner }));
      clock.advance(2 * day);
      expect((await store.purgeDone({ retentionMs: 2 * day })).purged).toBe(0);
      clock.advance(1);
      expect((await store.purgeDone({ retentionMs: 2 * day })).purged).toBe(1);
    });

    it("IBX-100 MID-10 purgeDone deletes the older of two done messages only", async () => {
      const { store, owner, clock, held } = await queue();
      const early = await held(1);
      await store.ack(owner, early);
      clock.advance(10_000);
      const late = await held(1);
      await store.ack(owner, late);
      expect(await store.purgeDone({ retentionMs: 10_001 })).toEqual(nothingPurged);
      clock.advance(2);
      expect(await store.purgeDone({ retentionMs: 10_001 })).toEqual({
        purged: 1,
        more: false,
        cursor: null,
      });
      expect(await store.get(keyOf(early[0]!))).toBeNull();
      expect(await store.get(keyOf(late[0]!))).not.toBeNull();
    });

    it("IBX-100 keeps 30 days by default", async () => {
      const { store, owner, clock, held } = await queue();
      await store.ack(owner, await held(1));
      clock.advance(30 * day);
      expect((await store.purgeDone()).purged).toBe(0);
      clock.advance(1);
      expect((await store.purgeDone()).purged).toBe(1);
    });

    it("IBX-101 MID-10 deletes in batches, at most maxBatches, and continues at the cursor", async () => {
      const { store, owner, clock, names, held } = await queue();
      await store.ack(owner, await held(25));
      clock.advance(2 * day);
      const first = await store.purgeDone({ retentionMs: day, batchSize: 10, maxBatches: 2 });
      expect(first).toEqual({ purged: 20, more: true, cursor: expect.any(Number) });
      expect(await rowCount(database(), names.message)).toBe(5);
      const done = names.object(database().db.dialect.name === "postgres" ? "_done" : "Done");
      expect(await rowCount(database(), done)).toBe(5);
      const rest = await store.purgeDone({ retentionMs: day, batchSize: 10, after: first.cursor! });
      expect(rest).toEqual({ purged: 5, more: false, cursor: null });
    });

    it("IBX-101 MID-10 bounded runs get past any number of rows that must be kept", async () => {
      const { store, owner, clock, held } = await queue();
      const claimed = await held(15);
      await store.fail(owner, claimed.slice(0, 10), "no");
      await store.ack(owner, claimed.slice(10));
      clock.advance(2 * day);
      let purged = 0;
      let runs = 0;
      let result: PurgeResult = { purged: 0, more: true, cursor: null };
      for (; runs < 10 && result.more; runs++) {
        const after = result.cursor === null ? {} : { after: result.cursor };
        result = await store.purgeDone({ retentionMs: day, batchSize: 5, maxBatches: 1, ...after });
        expect(result.purged).toBeLessThanOrEqual(5);
        purged += result.purged;
      }
      expect(result).toMatchObject({ more: false, cursor: null });
      expect(purged).toBe(5);
      expect(runs).toBeLessThanOrEqual(4);
      expect((await store.stats()).counts).toEqual(counts({ dead: 10 }));
    });

    it("IBX-101 MID-10 refuses retentions, batch sizes, numbers of batches and cursors out of range", async () => {
      const { store } = await queue();
      const wrong = [
        ...[0, -1, Number.NaN].map((retentionMs) => ({ retentionMs })),
        ...[0, -1, 1.5, 1_001].map((batchSize) => ({ batchSize })),
        ...[0, -1, 1.5, Number.NaN].map((maxBatches) => ({ maxBatches })),
        ...[-1, 1.5, Number.NaN].map((after) => ({ after })),
      ];
      for (const options of wrong) {
        const call = async () => store.purgeDone(options);
        await expect(call, String(Object.entries(options))).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("IBX-101 MID-10 purging an empty queue, and one with nothing old, does nothing", async () => {
      const { store, clock } = await queue();
      expect(await store.purgeDone()).toEqual(nothingPurged);
      const keys = await store.add(messages(3));
      clock.advance(day);
      expect(await store.purgeDone({ batchSize: 1 })).toEqual(nothingPurged);
      expect(ids(await store.claim({ owner: newOwnerToken() }))).toEqual(ids(keys));
    });
  });
}
