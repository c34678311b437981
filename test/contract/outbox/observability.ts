import { describe, expect, it } from "vitest";
import { fieldsOf } from "../support/recording-logger.js";
import type { OutboxContext } from "./support.js";

/** What an enqueue logs. */
export function observabilityTests({ database, box }: OutboxContext): void {
  describe("observability: outbox only", () => {
    it("OBX-085 logs every enqueued message at info, with topic, correlation id and id", async () => {
      const { outbox, log } = await box();
      const id = await outbox.enqueue({ topic: "order.created", payload: "x", correlationId: "c-1" });
      const ids = await outbox.enqueue([
        { topic: "a", payload: "x", correlationId: "c-2" },
        { topic: "b", payload: "x" },
      ]);
      const caller = await database().begin();
      await outbox.enqueue({ topic: "in.tx", payload: "x" }, { tx: caller.tx });
      await caller.commit();

      expect(fieldsOf(log, "info", "enqueue")).toMatchObject([
        { topic: "order.created", correlationId: "c-1", id },
        { topic: "a", correlationId: "c-2", id: ids[0] },
        { topic: "b", correlationId: null, id: ids[1] },
        { topic: "in.tx", correlationId: null },
      ]);
    });
  });
}
