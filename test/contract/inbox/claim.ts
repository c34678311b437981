import { describe, expect, it } from "vitest";
import { type InboxContext, keyTexts, stored } from "./support.js";

const hour = 3_600_000;

/** Which messages a claim of an inbox returns, and with which fields. */
export function claimTests(context: InboxContext): void {
  const { freshInbox, message, messages } = context;

  describe("claim: inbox only", () => {
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

    it("IBX-036 a claim returns the keys of what it leased, and hash, times and deliveries with them", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const full = message({ correlationId: "c-1", headers: { a: "b" }, hash: Uint8Array.of(1, 2, 3) });
      const plain = message({ source: "other" });
      await inbox.enqueue([full, plain]);
      const claimed = await inbox.claim({ owner });
      expect(keyTexts(claimed)).toEqual(keyTexts([full, plain]));
      for (const one of claimed) expect(await stored(inbox, one)).toEqual(one);
      const { hash, ...content } = full;
      const found = claimed.find((one) => one.messageId === full.messageId)!;
      expect(found).toMatchObject({
        ...content,
        state: "Processing",
        attempt: 0,
        owner,
        firstSeenAt: clock(),
        deliveries: 1,
        crashes: 0,
      });
      expect([...found.hash!]).toEqual([...hash!]);
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
  });
}
