import { describe, expect, it } from "vitest";
import type { InboxKey } from "../../../src/queue/message.js";
import { verbNames, verbs } from "../queue/support.js";
import { holding, type InboxContext, keyOf, keyTexts, stored } from "./support.js";

/** What settling means for keys of two parts. */
export function settleTests(context: InboxContext): void {
  describe("settle: inbox only", () => {
    it("IBX-001 two sources with the same messageId never touch each other, by key or as claimed", async () => {
      for (const verb of verbNames) {
        const { inbox, owner } = await context.freshInbox();
        const left = context.message({ source: "left", messageId: "same" });
        await inbox.enqueue([left, { ...left, source: "right" }]);
        const claimed = await inbox.claim({ owner });
        const one = claimed.find((message) => message.source === "left")!;
        const other = claimed.find((message) => message.source === "right")!;
        const result = await verbs[verb](inbox, owner, [keyOf(one)]);
        expect(keyTexts(result.changed as readonly InboxKey[]), verb).toEqual(keyTexts([one]));
        expect(await stored(inbox, other), verb).toEqual(other);

        const second = await verbs[verb](inbox, owner, [other]);
        expect(keyTexts(second.changed as readonly InboxKey[]), verb).toEqual(keyTexts([other]));
      }
    });

    it("IBX-003 IBX-044 an acked message is processed", async () => {
      const { inbox, owner, claimed } = await holding(context, 2);
      await inbox.ack(owner, claimed);
      for (const message of claimed) {
        expect(await stored(inbox, message)).toMatchObject({ state: "Done", processedBy: owner });
        expect(await inbox.alreadyProcessed(keyOf(message))).toBe(true);
      }
    });
  });
}
