import { describe, expect, it } from "vitest";
import { type OutboxContext, stored } from "./support.js";

/** What the outbox's view and ids show of a settlement. */
export function settleTests({ box }: OutboxContext): void {
  describe("settle: outbox only", () => {
    it("OBX-030 the view shows an acked message as processed", async () => {
      const { outbox, owner, held, view } = await box();
      await outbox.ack(owner, await held(1));
      const [row] = await view();
      expect([Number(row!.IsProcessed), row!.Status, row!.State]).toEqual([1, "done", "Done"]);
    });

    it("OBX-038 the view shows the attempts as RetryCount", async () => {
      const { outbox, owner, held, clock, view } = await box();
      await outbox.abandon(owner, await held(1));
      clock.advance(60_000);
      await outbox.abandon(owner, await outbox.claim({ owner }));
      expect(Number((await view())[0]!.RetryCount)).toBe(2);
    });

    it("OBX-044 the view shows a failed message as not processed", async () => {
      const { outbox, owner, held, view } = await box();
      await outbox.fail(owner, await held(1), "cannot be sent");
      const [row] = await view();
      expect([Number(row!.IsProcessed), row!.Status, row!.State]).toEqual([0, "dead", "Failed"]);
    });

    it("OBX-044 OBX-045 a message can fail without an error, and onDead is told so", async () => {
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
