import { describe, expect, it } from "vitest";
import { type OutboxContext, stored } from "./support.js";

/** Missing errors and ids in capitals. */
export function settleTests({ box }: OutboxContext): void {
  describe("settle: outbox only", () => {
    it("OBX-044 OBX-045 a message can fail without an error, and onDead gets that as the reason", async () => {
      const reasons: string[] = [];
      const { outbox, owner, held } = await box({ onDead: ({ reason }) => void reasons.push(reason) });
      const [first, second] = await held(2);
      await outbox.fail(owner, [first!]);
      await outbox.fail(owner, [second!], null);
      for (const one of [first!, second!])
        expect(await stored(outbox, one)).toMatchObject({ state: "Failed", lastError: null });
      expect(reasons).toEqual(["Failed without an error.", "Failed without an error."]);
    });

    it("OBX-033 OBX-036 an id in capitals is the same id, and counts once", async () => {
      for (const verb of ["ack", "abandon", "release"] as const) {
        const { outbox, owner, held } = await box();
        const [message] = await held(1);
        const keys = [{ id: message!.id }, { id: message!.id.toUpperCase() }];
        const result = await outbox[verb](owner, keys);
        expect(
          result.changed.map(({ id }) => id.toLowerCase()),
          verb,
        ).toEqual([message!.id]);
        expect(result.lost, verb).toEqual([]);
        const attempts = { ack: 0, abandon: 1, release: 0 }[verb];
        expect((await stored(outbox, message!)).attempt, verb).toBe(attempts);
      }
    });
  });
}
