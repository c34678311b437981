import { describe, expect, it } from "vitest";
import { createInbox } from "../../../src/inbox/inbox.js";
import { messageTrace } from "../../../src/operators/operator-reads.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import type { TestDatabase } from "../harness.js";
import { setUpQueue } from "../queue/set-up.js";

/** The trace of an event through inbox and outbox. */
export function messageTraceTests(database: () => TestDatabase): void {
  const stores = async () => {
    const { settings, clock, owner } = await setUpQueue(database(), "inbox", {});
    const out = await setUpQueue(database(), "outbox", { clock });
    const inbox = createInbox(database().db, settings as object);
    const outbox = createOutbox(database().db, out.settings as object);
    const trace = (id: string) =>
      messageTrace({ inbox: operatorsOf(inbox), outbox: operatorsOf(outbox) }, id);
    return { inbox, outbox, clock, owner, trace };
  };

  describe("the trace of an event", () => {
    it("MSG-14 goes from the webhook to the published message, by the id of either", async () => {
      const { inbox, outbox, clock, owner, trace } = await stores();
      const received = clock();
      await inbox.receive({ source: "stripe", messageId: "evt_1", topic: "paid", payload: "secret" });
      await inbox.receive({ source: "github", messageId: "evt_2", topic: "push", payload: "" });
      clock.advance(1_000);
      const handled = clock();
      const [event] = await inbox.claim({ owner, batchSize: 1 });
      const id = await inbox.transaction(async (tx) => {
        await inbox.ack(owner, [event!], { tx });
        return outbox.enqueue({ topic: "receipt", payload: "secret", correlationId: "evt_1" }, { tx });
      });
      clock.advance(1_000);
      const published = clock();
      await outbox.ack(owner, await outbox.claim({ owner }));
      const found = await trace("evt_1");
      expect(found).toMatchObject([
        {
          queue: "inbox",
          key: { source: "stripe", messageId: "evt_1" },
          topic: "paid",
          enqueuedAt: received,
          doneAt: handled,
        },
        {
          queue: "outbox",
          key: { id },
          topic: "receipt",
          enqueuedAt: handled,
          doneAt: published,
          state: "Done",
        },
      ]);
      expect(found).toHaveLength(2);
      expect(JSON.stringify(found)).not.toContain("secret");
      // The outbox message leads back to the event by its correlation id.
      expect(await trace(id)).toEqual(found);
      expect(await trace("evt_3")).toEqual([]);
    });

    it("MSG-14 follows the correlation id of a received message", async () => {
      const { inbox, outbox, clock, trace } = await stores();
      const event = { payload: "", correlationId: "order 7" };
      await inbox.receive({ ...event, source: "erp", messageId: "m1", topic: "a" });
      clock.advance(1);
      await inbox.receive({ ...event, source: "crm", messageId: "m2", topic: "b" });
      await outbox.enqueue({ topic: "c", payload: "", correlationId: "order 7" });
      const found = await trace("m2");
      expect(found.map(({ queue, topic }) => [queue, topic])).toEqual([
        ["inbox", "a"],
        ["inbox", "b"],
        ["outbox", "c"],
      ]);
    });
  });
}
