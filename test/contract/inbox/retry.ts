import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { fieldsOf } from "../support/recording-logger.js";
import { brokenConnection, deadlock, watched } from "../support/watched.js";
import { type InboxContext, keyOf, stored } from "./support.js";

/** Redelivery after an expiry, and faults while receiving. */
export function retryTests(context: InboxContext): void {
  describe("retries: inbox only", () => {
    it("IBX-005 ADD-03 neither a check nor the same delivery restores the expiry that a replay removed", async () => {
      const { inbox, clock } = await context.freshInbox();
      const owner = newOwnerToken();
      const message = context.message({ expiresAt: new Date(clock().getTime() + 1_000) });
      await inbox.receive(message);
      clock.advance(2_000);
      expect(await inbox.claim({ owner })).toEqual([]);
      expect((await inbox.replay([message])).changed).toHaveLength(1);
      expect(await inbox.alreadyProcessed(keyOf(message))).toBe(false);
      expect(await inbox.receive(message)).toBe("duplicate");
      expect(await inbox.claim({ owner })).toMatchObject([{ messageId: message.messageId, expiresAt: null }]);
    });

    it("IBX-104 a receive whose result was lost after the commit returns enqueued or duplicate", async () => {
      const { inbox, on } = await context.freshInbox();
      const { db } = context.database();
      const losing = () => on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const [one, ...many] = context.messages(4);
      expect(["enqueued", "duplicate"]).toContain(await losing().receive(one!));
      for (const outcome of await losing().enqueue(many))
        expect(["enqueued", "duplicate"]).toContain(outcome);
      expect((await inbox.list()).messages).toHaveLength(4);
    });

    it("IBX-104 a receive and a check are repeated after a deadlock, with a warning", async () => {
      const { inbox, on, logs } = await context.freshInbox();
      const { db } = context.database();
      const message = context.message();
      const failing = () => on(watched(db, [{ fail: deadlock(db) }]));
      expect(await failing().receive(message)).toBe("enqueued");
      expect(await failing().alreadyProcessed(keyOf(message))).toBe(false);
      expect((await stored(inbox, message)).deliveries).toBe(2);
      const warnings = fieldsOf(logs, "warn", "database fault, trying again");
      expect(warnings).toMatchObject([{ statement: "receive", retry: 1 }, { retry: 1 }]);
    });
  });
}
