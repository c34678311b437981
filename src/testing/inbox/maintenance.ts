import { describe, expect, it } from "vitest";
import { ArgumentRangeError } from "../../errors.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import type { PurgeResult } from "../../queue/work-store.js";
import { holding } from "./settle.js";
import { type InboxContext, keyOf, keysOf, rowCount, stored } from "./support.js";

const day = 86_400_000;

export function maintenanceTests(context: InboxContext): void {
  describe("clean-up", () => {
    it("IBX-098 purgeDone removes a Done message wholly: its message row and its state row", async () => {
      const { inbox, owner, clock, names, claimed } = await holding(context, 2);
      await inbox.ack(owner, [claimed[0]!]);
      clock.advance(2 * day);
      expect(await inbox.purgeDone({ retentionMs: day })).toEqual({ purged: 1, more: false, cursor: null });
      expect(await inbox.get(keyOf(claimed[0]!))).toBeNull();
      expect(await rowCount(context.database(), names.message)).toBe(1);
      expect(await rowCount(context.database(), names.state)).toBe(1);
      expect(await stored(inbox, claimed[1]!)).toEqual(claimed[1]);
    });

    it("IBX-098 a message that comes again after it was purged is a new one", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      const [first] = claimed;
      await inbox.ack(owner, claimed);
      clock.advance(31 * day);
      await inbox.purgeDone();
      const again = { ...keyOf(first!), topic: "again", payload: "new" };
      expect(await inbox.receive(again)).toBe("enqueued");
      const [second] = await inbox.claim({ owner });
      expect(second).toMatchObject({ ...again, attempt: 0, deliveries: 1, firstSeenAt: clock() });
      expect(second!.seq).toBeGreaterThan(first!.seq);
    });

    it("IBX-099 purgeDone keeps what is Seen, Processing or Dead, however old", async () => {
      const { inbox, owner, clock } = await context.freshInbox();
      const [done, dead, retried, leased] = context.messages(4);
      await inbox.enqueue([done!, dead!, retried!, leased!]);
      await inbox.claim({ owner });
      await inbox.ack(owner, [done!]);
      await inbox.fail(owner, [dead!], "no");
      await inbox.abandon(owner, [retried!]);
      const [seen, marked, buried, fresh] = context.messages(4);
      await inbox.alreadyProcessed(keyOf(seen!));
      await inbox.markProcessing(keyOf(marked!));
      await inbox.markDead(keyOf(buried!));
      await inbox.receive(fresh!);
      const kept = [dead!, retried!, leased!, seen!, marked!, buried!, fresh!];
      const before = await Promise.all(kept.map((key) => stored(inbox, key)));

      clock.advance(3_650 * day);
      expect(await inbox.purgeDone({ retentionMs: 1 })).toMatchObject({ purged: 1, more: false });
      expect(await inbox.get(keyOf(done!))).toBeNull();
      expect(await Promise.all(kept.map((key) => stored(inbox, key)))).toEqual(before);
    });

    it("IBX-100 the retention is the caller's, counted from when the message was done", async () => {
      const { inbox, owner, clock } = await context.freshInbox();
      await inbox.receive(context.message());
      clock.advance(10 * day);
      await inbox.ack(owner, await inbox.claim({ owner }));
      clock.advance(2 * day);
      expect((await inbox.purgeDone({ retentionMs: 2 * day })).purged).toBe(0);
      clock.advance(1);
      expect((await inbox.purgeDone({ retentionMs: 2 * day })).purged).toBe(1);
    });

    it("IBX-100 30 days unless told otherwise, for what was acked and for what was marked by hand", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      await inbox.ack(owner, claimed);
      await inbox.markProcessed(keyOf(context.message()));
      clock.advance(30 * day);
      expect((await inbox.purgeDone()).purged).toBe(0);
      clock.advance(1);
      expect((await inbox.purgeDone()).purged).toBe(2);
    });

    it("IBX-100 a Done message that arrived again within the retention is kept, or the next redelivery would run it anew", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 2);
      await inbox.ack(owner, claimed);
      clock.advance(20 * day);
      const [again, checked] = claimed.map(keyOf);
      expect(await inbox.receive({ ...again!, topic: "t", payload: "" })).toBe("done");
      expect(await inbox.alreadyProcessed(checked!)).toBe(true);
      clock.advance(20 * day); // 40 days since it was done, 20 since it was seen
      expect((await inbox.purgeDone()).purged).toBe(0);
      expect(await inbox.receive({ ...again!, topic: "t", payload: "" })).toBe("done");
      clock.advance(11 * day);
      expect((await inbox.purgeDone()).purged).toBe(1);
      expect(await inbox.get(checked!)).toBeNull();
      expect(await inbox.get(again!)).not.toBeNull();
    });

    it("IBX-101 purgeDone deletes in batches, as many as are allowed, and goes on at the cursor", async () => {
      const { inbox, owner, clock, names, claimed } = await holding(context, 25);
      await inbox.ack(owner, claimed);
      clock.advance(2 * day);
      const first = await inbox.purgeDone({ retentionMs: day, batchSize: 10, maxBatches: 2 });
      expect(first).toEqual({ purged: 20, more: true, cursor: expect.any(Number) });
      expect(await rowCount(context.database(), names.message)).toBe(5);
      const isPostgres = context.database().db.dialect.name === "postgres"; // where what is done has a table of its own
      expect(await rowCount(context.database(), isPostgres ? names.object("_done") : names.state)).toBe(5);
      const rest = await inbox.purgeDone({ retentionMs: day, batchSize: 10, after: first.cursor! });
      expect(rest).toEqual({ purged: 5, more: false, cursor: null });
    });

    it("IBX-101 bounded runs get past any number of rows that must be kept", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 15);
      await inbox.fail(owner, claimed.slice(0, 10), "no");
      await inbox.ack(owner, claimed.slice(10));
      clock.advance(2 * day);
      let purged = 0;
      let result: PurgeResult = { purged: 0, more: true, cursor: null };
      for (let run = 0; run < 10 && result.more; run++) {
        const after = result.cursor === null ? {} : { after: result.cursor };
        result = await inbox.purgeDone({ retentionMs: day, batchSize: 4, maxBatches: 1, ...after });
        expect(result.purged).toBeLessThanOrEqual(4);
        purged += result.purged;
      }
      expect(result).toMatchObject({ more: false, cursor: null });
      expect(purged).toBe(5);
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 0, Done: 0, Dead: 10 });
    });

    it("IBX-101 refuses retentions, sizes, numbers of batches and cursors that cannot be", async () => {
      const { inbox } = await context.freshInbox();
      const wrong = [
        ...[0, -1, Number.NaN].map((retentionMs) => ({ retentionMs })),
        ...[0, -1, 1.5, 1_001].map((batchSize) => ({ batchSize })),
        ...[0, -1, 1.5, Number.NaN].map((maxBatches) => ({ maxBatches })),
        ...[-1, 1.5, Number.NaN].map((after) => ({ after })),
      ];
      for (const options of wrong) {
        const call = async () => inbox.purgeDone(options);
        await expect(call, String(Object.entries(options))).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("IBX-101 purging an empty inbox, and one with nothing old, does nothing", async () => {
      const { inbox, clock } = await context.freshInbox();
      expect(await inbox.purgeDone()).toEqual({ purged: 0, more: false, cursor: null });
      const messages = context.messages(3);
      await inbox.enqueue(messages);
      clock.advance(day);
      expect(await inbox.purgeDone({ batchSize: 1 })).toEqual({ purged: 0, more: false, cursor: null });
      expect(keysOf(await inbox.claim({ owner: newOwnerToken() }))).toEqual(keysOf(messages));
    });
  });
}
