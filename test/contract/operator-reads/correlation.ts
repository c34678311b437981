import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { messages, type QueueContext } from "../queue/support.js";

/** Messages that belong together. */
export function correlationTests({ queue, keyOf, states }: QueueContext): void {
  describe("messages by correlation id", () => {
    it("MSG-14 finds all messages with the id, the oldest first, with their times and without their content", async () => {
      const { store, owner, clock } = await queue();
      const start = clock();
      await store.add(messages(3, { correlationId: "order 7" }));
      await store.add([...messages(1, { correlationId: "order 77" }), ...messages(1)]);
      const claimed = await store.claim({ owner });
      const [done, dead, waiting] = claimed.filter(({ correlationId }) => correlationId === "order 7");
      clock.advance(1_000);
      await store.abandon(owner, [done!], { delayMs: 1_000, error: "503" });
      await store.fail(owner, [dead!], "410");
      await store.release(owner, [waiting!]);
      clock.advance(1_000);
      const retried = await store.claim({ owner });
      await store.ack(
        owner,
        retried.filter(({ seq }) => seq === done!.seq),
      );
      const ended = new Date(start.getTime() + 1_000);
      const found = await store.byCorrelation("order 7");
      const common = { topic: "test", correlationId: "order 7", partitionKey: null, enqueuedAt: start };
      expect(found).toHaveLength(3);
      expect(found).toMatchObject([
        {
          key: keyOf(done!),
          state: states.done,
          attempt: 1,
          firstAttemptAt: ended,
          doneAt: clock(),
          diedAt: null,
        },
        {
          key: keyOf(dead!),
          state: states.dead,
          lastError: "410",
          firstAttemptAt: ended,
          doneAt: null,
          diedAt: ended,
        },
        {
          key: keyOf(waiting!),
          state: states.held,
          attempt: 0,
          firstAttemptAt: null,
          doneAt: null,
          diedAt: null,
        },
      ]);
      for (const message of found) {
        expect(message).toMatchObject(common);
        for (const name of ["payload", "headers", "hash"]) expect(message).not.toHaveProperty(name);
      }
      expect(await store.byCorrelation("order 7", { limit: 2 })).toEqual(found.slice(0, 2));
      expect(await store.byCorrelation("ORDER 7")).toEqual([]);
    });

    it("MSG-14 a message is found by its own id too, and returned once", async () => {
      const { store, held } = await queue();
      const [message] = await held(1);
      const own = message!.messageId;
      expect(await store.byCorrelation(own)).toMatchObject([{ key: keyOf(message!), messageId: own }]);
      await store.add(messages(1, { correlationId: own }));
      const found = await store.byCorrelation(own);
      expect(found.map(({ correlationId }) => correlationId)).toEqual([null, own]);
    });

    it("MSG-14 a message that was never claimed is found", async () => {
      const { store } = await queue();
      const [key] = await store.add(messages(1, { correlationId: "new" }));
      expect(await store.byCorrelation("new")).toMatchObject([
        { key: keyOf(key!), state: states.waiting, attempt: 0, lastError: null, firstAttemptAt: null },
      ]);
    });

    it("MSG-14 refuses invalid ids, and limits out of range", async () => {
      const { store } = await queue();
      for (const wrong of ["", 7, null, "x".repeat(256), "a\0b"])
        await expect(store.byCorrelation(wrong as string)).rejects.toBeInstanceOf(InvalidArgumentError);
      await expect(store.byCorrelation("a", { limit: 0 })).rejects.toBeInstanceOf(ArgumentRangeError);
    });
  });
}
