import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { numbered, type OutboxContext, stored } from "./support.js";

/** Sending messages again, or before their back-off is over. */
export function resendTests({ box }: OutboxContext): void {
  describe("sending again", () => {
    it("MSG-21 Done messages are listed page by page, without payloads, and become claimable again under their ids", async () => {
      const { outbox, owner, clock, held } = await box();
      const messages = await held(3);
      clock.advance(1_000);
      await outbox.ack(owner, messages);
      const [waiting] = await outbox.enqueue(numbered(1));
      const first = await outbox.listDone({ limit: 2 });
      const second = await outbox.listDone({ limit: 2, after: first.cursor! });
      expect(second.cursor).toBeNull();
      const listed = [...first.messages, ...second.messages];
      const { topic } = messages[0]!;
      expect(listed).toEqual(messages.map(({ id, seq }) => ({ id, seq, topic, processedAt: clock() })));

      clock.advance(1_000);
      const { changed, lost } = await outbox.resend([listed[0]!, { id: waiting! }], { ttlMs: 5_000 });
      expect(changed.map(({ id }) => id)).toEqual([messages[0]!.id]);
      expect(lost).toEqual([{ id: waiting }]);
      expect(await stored(outbox, messages[0]!)).toMatchObject({
        state: "Ready",
        attempt: 0,
        processedAt: null,
        processedBy: null,
        expiresAt: new Date(clock().getTime() + 5_000),
      });
      const claimed = await outbox.claim({ owner });
      expect(claimed.map(({ id }) => id).sort()).toEqual([messages[0]!.id, waiting].sort());
      const again = claimed.find(({ id }) => id === messages[0]!.id)!;
      expect(again).toMatchObject({ messageId: messages[0]!.messageId, payload: messages[0]!.payload });
      await outbox.ack(owner, claimed);
      expect((await outbox.stats()).counts).toMatchObject({ Done: 4, Ready: 0, InProgress: 0 });
      expect((await outbox.resend([{ id: again.id }])).changed).toHaveLength(1);
      expect((await stored(outbox, again)).expiresAt).toBeNull();
    });

    it("MSG-21 resent messages of a partition keep their order, behind the waiting ones", async () => {
      const { outbox, owner } = await box();
      const keyed = numbered(3).map((message) => ({ ...message, partitionKey: "p" }));
      const ids = await outbox.enqueue(keyed);
      const drain = async () => {
        const order: string[] = [];
        for (;;) {
          const claimed = await outbox.claim({ owner });
          if (claimed.length === 0) return order;
          expect(claimed).toHaveLength(1);
          order.push(claimed[0]!.id);
          await outbox.ack(owner, claimed);
        }
      };
      expect(await drain()).toEqual(ids);
      const later = await outbox.enqueue({ topic: "t", payload: "later", partitionKey: "p" });
      const { changed } = await outbox.resend(ids.map((id) => ({ id })));
      expect(changed).toHaveLength(3);
      expect(await drain()).toEqual([later, ...ids]);
    });

    it("MSG-02 makeDue ends the back-off of messages with one error, batch by batch", async () => {
      const { outbox, owner, held, clock } = await box();
      const messages = await held(5);
      await outbox.abandon(
        owner,
        messages.map((message, index) => ({
          message,
          delayMs: 60_000,
          error: index < 3 ? "the breaker is open" : "The Breaker is open",
          costsAttempt: index < 3 ? false : undefined,
        })),
      );
      expect(await outbox.claim({ owner })).toEqual([]);
      expect(await outbox.makeDue("the breaker")).toEqual({ changed: 0, more: false });
      expect(await outbox.makeDue("the breaker is open", { batchSize: 2 })).toEqual({
        changed: 2,
        more: true,
      });
      expect(await outbox.makeDue("the breaker is open", { batchSize: 2 })).toEqual({
        changed: 1,
        more: false,
      });
      const claimed = await outbox.claim({ owner });
      expect(claimed.map(({ id }) => id).sort()).toEqual(
        messages
          .slice(0, 3)
          .map(({ id }) => id)
          .sort(),
      );
      expect(claimed.map(({ attempt }) => attempt)).toEqual([0, 0, 0]);
      expect(await outbox.makeDue("the breaker is open")).toEqual({ changed: 0, more: false }); // claimed
      clock.advance(60_000);
      await expect(async () => outbox.makeDue("")).rejects.toBeInstanceOf(InvalidArgumentError);
    });
  });
}
