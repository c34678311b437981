import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../errors.js";
import type { OutboxKey } from "../../queue/message.js";
import type { OutboxContext } from "./support.js";

/** How an outgoing message is found. */
export function operationsTests({ box }: OutboxContext): void {
  describe("operations: outbox only", () => {
    it("ADD-02 get returns a message by its id, in any case", async () => {
      const { outbox } = await box();
      const id = await outbox.enqueue({ topic: "t", payload: "p" });
      expect(await outbox.get({ id })).toMatchObject({ id, payload: "p" });
      expect(await outbox.get({ id: id.toUpperCase() })).toMatchObject({ id, payload: "p" });
      const call = async () => outbox.get(id as unknown as OutboxKey);
      await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
    });
  });
}
