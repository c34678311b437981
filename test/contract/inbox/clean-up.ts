import { describe, expect, it } from "vitest";
import { holding, type InboxContext, keyOf, stored } from "./support.js";

const day = 86_400_000;

/** What clean-up keeps, so that a redelivery is still recognised. */
export function cleanUpTests(context: InboxContext): void {
  describe("clean-up: inbox only", () => {
    it("IBX-098 a message that arrives again after its purge is new", async () => {
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

    it("IBX-099 purgeDone keeps messages that are Seen or marked as Processing or Dead, however old", async () => {
      const { inbox, clock } = await context.freshInbox();
      const [done, seen, marked, dead] = context.messages(4).map(keyOf);
      await inbox.markProcessed(done!);
      await inbox.alreadyProcessed(seen!);
      await inbox.markProcessing(marked!);
      await inbox.markDead(dead!);
      const kept = [seen!, marked!, dead!];
      const before = await Promise.all(kept.map((key) => stored(inbox, key)));

      clock.advance(3_650 * day);
      expect(await inbox.purgeDone({ retentionMs: 1 })).toMatchObject({ purged: 1, more: false });
      expect(await inbox.get(done!)).toBeNull();
      expect(await Promise.all(kept.map((key) => stored(inbox, key)))).toEqual(before);
    });

    it("ADD-02 a Dead message that arrived again within its retention is kept; after its purge it is new", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      const [dead] = claimed;
      await inbox.fail(owner, claimed, "no");
      await inbox.markDead(keyOf(context.message()));
      clock.advance(20 * day);
      const again = { ...keyOf(dead!), topic: "t", payload: "" };
      expect(await inbox.receive(again)).toBe("dead");
      expect(await inbox.purgeDead({ retentionMs: 10 * day })).toMatchObject({ purged: 1 }); // the one marked by hand
      clock.advance(10 * day + 1);
      expect(await inbox.purgeDead({ retentionMs: 10 * day })).toMatchObject({ purged: 1 });
      expect(await inbox.receive(again)).toBe("enqueued");
      expect(await inbox.claim({ owner })).toMatchObject([{ attempt: 0, deliveries: 1, lastError: null }]);
    });

    it("ADD-02 a message that is no longer dead, revived or marked by hand, is not purged as dead", async () => {
      const { inbox, owner, clock } = await context.freshInbox({ deadOnRedelivery: "revive" });
      const [processed, revived] = context.messages(2);
      await inbox.enqueue([processed!, revived!]);
      await inbox.fail(owner, await inbox.claim({ owner }), "no");
      await inbox.markProcessed(keyOf(processed!));
      await inbox.receive(revived!);
      clock.advance(300 * day);
      expect(await inbox.purgeDead({ retentionMs: day })).toMatchObject({ purged: 0 });
      expect((await stored(inbox, processed!)).state).toBe("Done");
      expect(await inbox.claim({ owner })).toMatchObject([keyOf(revived!)]);
    });

    it("IBX-100 keeps 30 days by default, for acked messages and for those marked by hand", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      await inbox.ack(owner, claimed);
      await inbox.markProcessed(keyOf(context.message()));
      clock.advance(30 * day);
      expect((await inbox.purgeDone()).purged).toBe(0);
      clock.advance(1);
      expect((await inbox.purgeDone()).purged).toBe(2);
    });

    it("IBX-100 a Done message that arrived again within the retention is kept, so that no redelivery is handled again", async () => {
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
  });
}
