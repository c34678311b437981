import { describe, expect, it } from "vitest";
import { holding, type InboxContext, keyOf, keyTexts, stored } from "./support.js";

const hour = 3_600_000;
const nothingReaped = { reaped: 0, dead: 0, more: false };

/** Which messages of an inbox are claimed and reaped. */
export function claimTests(context: InboxContext): void {
  const { freshInbox, messages } = context;

  describe("claim and reap: inbox only", () => {
    it("IBX-031 a message that was only seen, or is marked as processing by hand, is not claimed", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const [seen, marked, enqueued] = messages(3);
      await inbox.alreadyProcessed(seen!);
      await inbox.alreadyProcessed(marked!);
      await inbox.markProcessing(marked!);
      await inbox.receive(enqueued!);
      expect(keyTexts(await inbox.claim({ owner }))).toEqual(keyTexts([enqueued!]));
      await inbox.ack(owner, [enqueued!]);
      clock.advance(24 * hour);
      expect(await inbox.claim({ owner })).toEqual([]);
      expect((await stored(inbox, seen!)).state).toBe("Seen");
      expect((await stored(inbox, marked!)).state).toBe("Processing");
    });

    it("IBX-038 messages that were marked done or dead by hand are never claimed", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const [done, dead] = messages(2);
      await inbox.enqueue([done!, dead!]);
      await inbox.markProcessed(done!);
      await inbox.markDead(dead!, "by hand");
      for (const waitMs of [0, hour, 365 * 24 * hour]) {
        clock.advance(waitMs);
        expect(await inbox.claim({ owner })).toEqual([]);
      }
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 0, Done: 1, Dead: 1 });
    });

    it("IBX-071 reaping leaves messages that are Seen or marked by hand as they are", async () => {
      const { inbox, clock } = await context.freshInbox();
      const [seen, marked] = context.messages(2).map(keyOf);
      await inbox.alreadyProcessed(seen!);
      await inbox.markProcessing(marked!);
      const keys = [seen!, marked!];
      const before = await Promise.all(keys.map((key) => stored(inbox, key)));
      clock.advance(30 * 86_400_000);
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
      expect(await Promise.all(keys.map((key) => stored(inbox, key)))).toEqual(before);
    });

    it("IBX-071 reaping leaves messages that an operator marked Done or Dead while they were leased as they are", async () => {
      const { inbox, clock, claimed } = await holding(context, 2);
      await inbox.markProcessed(keyOf(claimed[0]!));
      await inbox.markDead(keyOf(claimed[1]!), "by hand");
      const before = await Promise.all(claimed.map((key) => stored(inbox, key)));
      clock.advance(60_000);
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
      expect(await Promise.all(claimed.map((key) => stored(inbox, key)))).toEqual(before);
    });
  });
}
