import { describe, expect, it } from "vitest";
import type { InboxContext } from "../inbox/support.js";
import { claimAll } from "../queue/support.js";
import { rowCount } from "../support/database.js";
import { watched } from "../support/watched.js";
import { send, stripeEvent, stripeRoute } from "./support.js";

export function concurrencyTests({ database, freshInbox }: InboxContext): void {
  describe("concurrency", () => {
    it("IBX-014 FUN-01 two hundred concurrent webhooks, half of them duplicates, leave a hundred rows", async () => {
      const { inbox, on, names, owner } = await freshInbox();
      const inboxes = [inbox, ...Array.from({ length: 3 }, () => on(database().reopen()))];
      const routes = inboxes.map((one) => stripeRoute(one, { receiveMs: 120_000 }));
      const ids = Array.from({ length: 200 }, (_, n) => `evt_${n % 100}`);
      const answers = await Promise.all(ids.map((id, n) => send(routes[n % 4]!, stripeEvent(id))));
      expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
      expect(answers.filter(({ outcome }) => outcome === "enqueued")).toHaveLength(100);
      expect(answers.filter(({ outcome }) => outcome === "duplicate")).toHaveLength(100);
      expect(await rowCount(database(), names.message)).toBe(100);
      const claimed = await claimAll(inbox, owner);
      expect(new Set(claimed.map(({ messageId }) => messageId))).toEqual(new Set(ids));
    });

    it("FUN-01 a webhook, new or duplicate, is one round trip, and a refused one is none", async () => {
      const { on } = await freshInbox();
      const db = watched(database().db);
      const route = stripeRoute(on(db));
      await send(route, stripeEvent("evt_1"));
      expect(db.calls).toHaveLength(1);
      await send(route, stripeEvent("evt_1"));
      expect(db.calls).toHaveLength(2);
      const forged = stripeEvent("evt_2");
      forged.headers.set("stripe-signature", "t=1,v1=00");
      expect((await send(route, forged)).status).toBe(401);
      expect(db.calls).toHaveLength(2);
    });
  });
}
