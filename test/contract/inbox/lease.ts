import { describe, expect, it } from "vitest";
import { holding, type InboxContext, keyOf, stored } from "./support.js";

const nothingReaped = { reaped: 0, dead: 0, more: false };

/** What the reaper leaves alone. */
export function leaseTests(context: InboxContext): void {
  describe("leases: inbox only", () => {
    it("IBX-071 reaping changes nothing that is Seen or marked by hand", async () => {
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

    it("IBX-071 reaping changes nothing that an operator marked Done or Dead while it was leased", async () => {
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
