import { expect, it } from "vitest";
import { newOwnerToken } from "../../queue/owner-token.js";
import { backoffMs, retryPolicy } from "../../queue/retry-policy.js";
import type { ContractHarness } from "../harness.js";
import { type Box, idsOf, outboxTheme, stored } from "./support.js";

/** Abandons one message again and again, and answers how long it was sent away each time. */
async function waitsOf({ outbox, owner, clock, held }: Box, times: number): Promise<number[]> {
  let [message] = await held(1);
  const waits: number[] = [];
  for (let n = 1; n <= times; n++) {
    await outbox.abandon(owner, [message!]);
    const { nextAttemptAt } = await stored(outbox, message!);
    waits.push(nextAttemptAt.getTime() - clock().getTime());
    clock.advance(waits.at(-1)! + 1); // some databases keep fractions of a millisecond
    if (n < times) [message] = await outbox.claim({ owner });
  }
  return waits;
}

export function retryContract(harness: ContractHarness): void {
  outboxTheme(harness, "retry and back-off", ({ box }) => {
    it("OBX-039 OBX-061 OBX-062 waits min(2^attempt s, 60 s) after each attempt", async () => {
      const waits = await waitsOf(await box(), 9);
      expect(waits).toEqual([2, 4, 8, 16, 32, 60, 60, 60, 60].map((seconds) => seconds * 1_000));
    });

    it("OBX-042 an abandoned message is claimable from the end of its back-off on, and not before", async () => {
      const { outbox, owner, held, clock } = await box();
      const [message] = await held(1);
      await outbox.abandon(owner, [message!]);
      clock.advance(1_999);
      expect(await outbox.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(1);
      expect(idsOf(await outbox.claim({ owner: newOwnerToken() }))).toEqual([message!.id]);
    });

    it("OBX-063 the policy is the user's to set: base, factor and cap", async () => {
      const made = await box({ retry: { baseMs: 100, factor: 3, maxMs: 5_000 } });
      expect(await waitsOf(made, 6)).toEqual([300, 900, 2_700, 5_000, 5_000, 5_000]);
    });

    it("OBX-063 the database computes the same waits as backoffMs, for odd policies and many attempts too", async () => {
      for (const retry of [
        { maxAttempts: 100, baseMs: 333, factor: 1.7, maxMs: 1_000_000 },
        { maxAttempts: 100, baseMs: 5_000, factor: 2, maxMs: 1_000 },
        { maxAttempts: 100, baseMs: 1, factor: 100, maxMs: 86_400_000 },
      ]) {
        const waits = await waitsOf(await box({ retry }), 20);
        for (const [index, wait] of waits.entries()) {
          // a database may cut the fraction of a millisecond where we round it
          expect(Math.abs(wait - backoffMs(retryPolicy(retry), index + 1, () => 0))).toBeLessThanOrEqual(1);
        }
      }
    });

    it("OBX-063 jitter adds between none and all of itself, and not always the same", async () => {
      const waits = await waitsOf(
        await box({ retry: { maxAttempts: 100, baseMs: 1_000, factor: 1, jitterMs: 500 } }),
        20,
      );
      for (const wait of waits) {
        expect(wait).toBeGreaterThanOrEqual(1_000);
        expect(wait).toBeLessThanOrEqual(1_500);
      }
      expect(new Set(waits).size).toBeGreaterThan(1);
    });

    it("OBX-064 the last attempt makes the message Failed, tells onDead and answers it as dead", async () => {
      const { outbox, owner, held, clock, dead } = await box({ retry: { maxAttempts: 3 } });
      const [message] = await held(1);
      for (const attempt of [1, 2]) {
        const result = await outbox.abandon(owner, [message!], { error: `try ${attempt}` });
        expect(result.dead).toEqual([]);
        clock.advance(60_000);
        expect(await outbox.claim({ owner })).toHaveLength(1);
      }
      const last = await outbox.abandon(owner, [message!], { error: "try 3" });

      expect(idsOf(last.changed)).toEqual([message!.id]);
      expect(idsOf(last.dead)).toEqual([message!.id]);
      expect(await stored(outbox, message!)).toMatchObject({
        state: "Failed",
        attempt: 3,
        lastError: "try 3",
      });
      expect(dead).toEqual([{ id: message!.id, reason: "try 3" }]);
      clock.advance(86_400_000);
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-064 in one batch only those at their last attempt fail", async () => {
      const { outbox, owner, held, clock } = await box({ retry: { maxAttempts: 2 } });
      const [old] = await held(1);
      await outbox.abandon(owner, [old!]);
      clock.advance(60_000);
      const young = await outbox.enqueue({ topic: "t", payload: "" });
      const both = await outbox.claim({ owner });
      expect(both).toHaveLength(2);
      const result = await outbox.abandon(owner, both);

      expect(idsOf(result.dead)).toEqual([old!.id]);
      expect((await stored(outbox, { id: young })).state).toBe("Ready");
    });

    it("OBX-065 ten attempts unless told otherwise; one is possible", async () => {
      const patient = await box();
      const waits = await waitsOf(patient, 10);
      expect(waits).toHaveLength(10);
      expect((await patient.outbox.list({ state: "Failed" })).messages).toMatchObject([{ attempt: 10 }]);

      const strict = await box({ retry: { maxAttempts: 1 } });
      const result = await strict.outbox.abandon(strict.owner, await strict.held(1));
      expect(result.dead).toHaveLength(1);
    });

    it("OBX-014 messageId, topic, payload and createdAt are the same on every delivery", async () => {
      const { outbox, owner, held, clock } = await box();
      const [first] = await held(1, { headers: { a: "b" }, correlationId: "c" });
      await outbox.abandon(owner, [first!], { delayMs: 1_000 });
      clock.advance(1_000);
      const [second] = await outbox.claim({ owner, leaseMs: 1_000 });
      clock.advance(60_000);
      const [third] = await outbox.claim({ owner });
      await outbox.fail(owner, [third!], "no");
      await outbox.replay([third!]);
      const [fourth] = await outbox.claim({ owner });

      const same = ({
        id,
        messageId,
        topic,
        payload,
        createdAt,
        headers,
        correlationId,
      }: typeof first & object) => ({
        ...{ id, messageId, topic, payload, createdAt, headers, correlationId },
      });
      for (const again of [second!, third!, fourth!]) expect(same(again)).toEqual(same(first!));
      expect([second!.attempt, third!.attempt, fourth!.attempt]).toEqual([1, 2, 0]);
    });
  });
}
