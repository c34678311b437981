import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { reasons } from "../../../src/sql/dead-letters.js";
import type { QueueContext } from "../queue/support.js";

const aMonth = 31 * 86_400_000;

/** The history of failed attempts. */
export function attemptTests({ queue, keyOf, unknownKey, badKeys, database }: QueueContext): void {
  describe("failed attempts", () => {
    it("ADD-02 abandon and fail each add one, with time, worker and error; an ack adds none", async () => {
      const { store, owner, held, clock } = await queue();
      const [first, second] = await held(2);
      await store.abandon(owner, [{ message: first!, error: "503 Busy" }, second!]);
      const abandonedAt = clock();
      clock.advance(60_000);
      const other = newOwnerToken();
      const again = await store.claim({ owner: other });
      await store.fail(other, [again[0]!], "410 Gone");
      await store.ack(other, [again[1]!]);
      expect(await store.attempts(keyOf(first!))).toEqual([
        { attempt: 1, endedAt: abandonedAt, worker: owner, error: "503 Busy" },
        { attempt: 2, endedAt: clock(), worker: other, error: "410 Gone" },
      ]);
      expect(await store.attempts(keyOf(second!))).toEqual([
        { attempt: 1, endedAt: abandonedAt, worker: owner, error: null },
      ]);
    });

    it("ADD-02 a lost lease adds one, whether the reaper or a claim finds it", async () => {
      const { store, owner, held, clock } = await queue();
      const [message] = await held(1);
      const firstEnd = message!.lockedUntil;
      clock.advance(30_001);
      await store.reapExpired();
      clock.advance(60_000);
      const other = newOwnerToken();
      const [again] = await store.claim({ owner: other });
      clock.advance(120_000);
      const [third] = await store.claim({ owner });
      expect(third).toMatchObject({ attempt: 2 });
      const error = reasons.leaseExpired;
      expect(await store.attempts(keyOf(message!))).toEqual([
        { attempt: 1, endedAt: firstEnd, worker: owner, error },
        { attempt: 2, endedAt: again!.lockedUntil, worker: other, error },
      ]);
    });

    it("ADD-02 release, renew, expiry, an abandon that costs none and a lost settlement add none", async () => {
      const { store, owner, held, clock } = await queue();
      const [message] = await held(1, { expiresAt: new Date(clock().getTime() + 3_600_000) });
      await store.renew(owner, [message!], 60_000);
      await store.fail(newOwnerToken(), [message!], "not mine");
      await store.abandon(owner, [{ message: message!, delayMs: 1, costsAttempt: false, error: "later" }]);
      clock.advance(1_000);
      await store.release(owner, await store.claim({ owner }));
      clock.advance(3_600_000);
      expect((await store.reapExpired()).dead).toBe(1);
      expect(await store.attempts(keyOf(message!))).toEqual([]);
    });

    it("ADD-02 a message keeps its last 50, a replay keeps them, and a purge deletes them", async () => {
      const { store, owner, held, clock, names } = await queue({ retry: { maxAttempts: 100 } });
      const [message] = await held(1);
      for (let i = 1; i <= 52; i++) {
        await store.abandon(owner, [message!], { error: `e${i}`, delayMs: 1 });
        clock.advance(1_000);
        await store.claim({ owner });
      }
      await store.fail(owner, [message!], "the end");
      await store.replay([message!]);
      const kept = await store.attempts(keyOf(message!));
      expect(kept.map(({ error }) => error)).toEqual([
        ...Array.from({ length: 49 }, (_, index) => `e${index + 4}`),
        "the end",
      ]);
      expect(kept.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 50 }, (_, index) => index + 4));
      await store.ack(owner, await store.claim({ owner }));
      expect(await store.attempts(keyOf(message!))).toHaveLength(50);
      clock.advance(aMonth);
      expect((await store.purgeDone()).purged).toBe(1);
      const attempts = names.object(database().db.dialect.name === "postgres" ? "_attempts" : "Attempts");
      expect(await database().raw(`select * from ${attempts}`)).toEqual([]);
    });

    it("ADD-02 an unknown message has none, and a bad key is refused", async () => {
      const { store } = await queue();
      expect(await store.attempts(unknownKey())).toEqual([]);
      for (const wrong of badKeys) {
        await expect(
          async () => store.attempts(wrong as object),
          JSON.stringify(wrong),
        ).rejects.toMatchObject({
          code: "ONCEBOX_INVALID_ARGUMENT",
        });
      }
    });
  });
}
