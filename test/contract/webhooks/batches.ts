import { describe, expect, it } from "vitest";
import { createWebhookRoute } from "../../../src/webhooks/route.js";
import type { ReceivedWebhook } from "../../../src/webhooks/route-options.js";
import { type InboxContext, stored } from "../inbox/support.js";
import { watched } from "../support/watched.js";
import { delivery, event, batchScheme as scheme, batchSecrets as secrets } from "./support.js";

interface Answer {
  readonly outcome: string;
  readonly messages: readonly { readonly messageId: string; readonly outcome: string }[];
}

export function batchTests({ freshInbox, database }: InboxContext): void {
  describe("batches", () => {
    it("FUN-01 FUN-05 a thousand events, a tenth of them known, are one round trip, and each has its outcome", async () => {
      const { on } = await freshInbox();
      const db = watched(database().db);
      const inbox = on(db);
      const announced: ReceivedWebhook[] = [];
      const route = createWebhookRoute({
        inbox,
        sources: { acme: { scheme, secrets } },
        afterEnqueue: (webhook) => announced.push(webhook),
      });
      const all = Array.from({ length: 1_000 }, (_, id) => event(id));
      expect((await route(delivery(all.slice(0, 100)))).status).toBe(200);
      const before = db.calls.length;
      const answer = (await (await route(delivery(all))).json()) as Answer;
      expect(db.calls.length - before).toBe(1);
      expect(db.calls).not.toContain("transaction");
      expect(answer.outcome).toBe("enqueued");
      const outcomes = answer.messages.map(({ outcome }) => outcome);
      expect(outcomes.slice(0, 100)).toEqual(new Array(100).fill("duplicate"));
      expect(outcomes.slice(100)).toEqual(new Array(900).fill("enqueued"));
      expect(announced).toHaveLength(1_000);
      expect(await stored(inbox, { source: "acme", messageId: "e999" })).toMatchObject({
        topic: "acme.paid",
        payload: '{"id":"e999","type":"paid"}',
      });
    });

    it("FUN-05 events that come again in another batch, with a higher attempt, are duplicates", async () => {
      const { inbox } = await freshInbox();
      const route = createWebhookRoute({ inbox, sources: { acme: { scheme, secrets } } });
      const outcomes = async (events: readonly unknown[]) => {
        const { messages } = (await (await route(delivery(events))).json()) as Answer;
        return messages.map(({ outcome }) => outcome);
      };
      const first = (id: number) => event(id, { attempt: 1 });
      expect(await outcomes([first(1), first(2)])).toEqual(["enqueued", "enqueued"]);
      expect(await outcomes([event(2, { attempt: 2 }), first(3)])).toEqual(["duplicate", "enqueued"]);
      expect(await outcomes([event(1, { attempt: 3, amount: 5 })])).toEqual(["conflict"]);
      expect(await outcomes([])).toEqual([]);
    });

    it("FUN-01 an item that is no event is dead with the reason, and the others are enqueued", async () => {
      const { inbox } = await freshInbox();
      const route = createWebhookRoute({ inbox, sources: { acme: { scheme, secrets } } });
      const answer = (await (await route(delivery([event(1), null, event(2)]))).json()) as Answer;
      expect(answer.messages.map(({ outcome }) => outcome)).toEqual(["enqueued", "dead", "enqueued"]);
      const { messageId } = answer.messages[1]!;
      expect(await stored(inbox, { source: "acme", messageId })).toMatchObject({
        state: "Dead",
        payload: "null",
        lastError: "The item of the batch is no JSON object.",
      });
    });

    it("FUN-07 each tenant gets only its own events, and one that fails does not affect the others", async () => {
      const [ann, bob] = [await freshInbox(), await freshInbox()];
      let isBobUp = false;
      const inboxOf = ({ tenant }: ReceivedWebhook) => {
        if (tenant === "ann") return ann.inbox;
        if (!isBobUp) throw new Error("The database of bob is down.");
        return bob.inbox;
      };
      const route = createWebhookRoute({ inbox: inboxOf, sources: { acme: { scheme, secrets } } });
      const events = [event(1, { shop: "ann" }), event(2, { shop: "bob" }), event(3, { shop: "ann" })];
      expect((await route(delivery(events))).status).toBe(503);
      isBobUp = true;
      const answer = (await (await route(delivery(events))).json()) as Answer;
      expect(answer.messages.map(({ outcome }) => outcome)).toEqual(["duplicate", "enqueued", "duplicate"]);
      const idsIn = async ({ inbox }: typeof ann) =>
        (await inbox.list()).messages.map(({ messageId }) => messageId).sort();
      expect(await idsIn(ann)).toEqual(["e1", "e3"]);
      expect(await idsIn(bob)).toEqual(["e2"]);
    });
  });
}
