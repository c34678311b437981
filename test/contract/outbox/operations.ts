import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import type { OutboxKey } from "../../../src/queue/message.js";
import { reasons } from "../../../src/sql/dead-letters.js";
import { gate } from "../support/gate.js";
import { numbered, type OutboxContext, stored } from "./support.js";

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

    it("ADD-03 a replay may give a new expiry", async () => {
      const { outbox, owner, clock, held } = await box();
      const messages = await held(2);
      await outbox.fail(owner, messages, "410");
      await outbox.replay([messages[0]!], { ttlMs: 2_000 });
      await outbox.replay([messages[1]!]);
      expect((await stored(outbox, messages[0]!)).expiresAt).toEqual(new Date(clock().getTime() + 2_000));
      expect((await stored(outbox, messages[1]!)).expiresAt).toBeNull();
      const refused = async () => outbox.replay([messages[0]!], { ttlMs: 0 });
      await expect(refused).rejects.toBeInstanceOf(ArgumentRangeError);
    });
  });

  describe("the expiry of Failed messages", () => {
    /** Failed messages that expire after a second, and the later calls of `onDead`. */
    const failed = async (count: number, onDead?: () => unknown) => {
      const reported: { readonly id: string; readonly reason: string }[] = [];
      const made = await box({
        async onDead({ message, reason }) {
          reported.push({ id: message.id, reason });
          if (reason === reasons.expired) await onDead?.();
        },
      });
      const { outbox, owner, clock } = made;
      const expiresAt = new Date(clock().getTime() + 1_000);
      const ids = await outbox.enqueue(numbered(count).map((message) => ({ ...message, expiresAt })));
      await outbox.fail(owner, await outbox.claim({ owner }), "410");
      expect(reported.splice(0)).toHaveLength(count);
      return { ...made, reported, ids };
    };

    it("MSG-04 MSG-17 is reported once, batch by batch, and the stored error has both reasons", async () => {
      const { outbox, clock, reported, ids, owner } = await failed(3);
      const other = await outbox.enqueue({ topic: "t", payload: "" }); // fails and never expires
      await outbox.fail(owner, await outbox.claim({ owner }), "410");
      reported.splice(0);
      clock.advance(999);
      expect(await outbox.expireFailed()).toEqual({ expired: 0, more: false });
      clock.advance(1);
      expect(await outbox.expireFailed({ batchSize: 2 })).toEqual({ expired: 2, more: true });
      expect(await outbox.expireFailed({ batchSize: 2 })).toEqual({ expired: 1, more: false });
      clock.advance(86_400_000);
      expect(await outbox.expireFailed()).toEqual({ expired: 0, more: false });
      expect(reported.map(({ id }) => id).sort()).toEqual([...ids].sort());
      expect(new Set(reported.map(({ reason }) => reason))).toEqual(new Set([reasons.expired]));
      for (const id of ids) {
        expect(await outbox.get({ id })).toMatchObject({
          state: "Failed",
          owner: null,
          lockedUntil: null,
          lastError: `${reasons.expired} Before that: 410`,
          lastAttemptAt: expect.any(Date),
        });
      }
      expect(await outbox.get({ id: other })).toMatchObject({ lastError: "410" });
      expect(await outbox.stats()).toMatchObject({ counts: { Failed: 4 }, expired: 3 });
    });

    it("MSG-04 is reported once by several processes at the same time", async () => {
      const { outbox, clock, reported, ids } = await failed(20);
      clock.advance(1_000);
      const results = await Promise.all([
        outbox.expireFailed(),
        outbox.expireFailed(),
        outbox.expireFailed({ batchSize: 5 }),
      ]);
      const one = await outbox.expireFailed();
      expect(results.reduce((sum, { expired }) => sum + expired, one.expired)).toBe(20);
      expect(reported.map(({ id }) => id).sort()).toEqual([...ids].sort());
    });

    it("MSG-04 is reported again when the process ended meanwhile, and not when onDead throws", async () => {
      const ended = gate();
      let reports: (() => unknown)[] = [() => ended.promise];
      const { outbox, clock, reported } = await failed(1, () => reports.shift()?.());
      clock.advance(1_000);
      const hanging = outbox.expireFailed();
      await expect.poll(() => reported).toHaveLength(1);
      clock.advance(5 * 60_000 - 1);
      expect(await outbox.expireFailed()).toMatchObject({ expired: 0 });
      clock.advance(1);
      reports = [
        () => {
          throw new Error("no mail server");
        },
      ];
      expect(await outbox.expireFailed()).toMatchObject({ expired: 1 });
      clock.advance(5 * 60_000);
      expect(await outbox.expireFailed()).toMatchObject({ expired: 0 });
      expect(reported).toHaveLength(2);
      ended.open();
      await hanging;
    });

    it("MSG-04 ADD-02 keeps the message from being purged while it is reported", async () => {
      const finish = gate();
      const { outbox, clock, reported: expiries } = await failed(1, () => finish.promise);
      clock.advance(60_000);
      const reporting = outbox.expireFailed();
      await expect.poll(() => expiries).toHaveLength(1);
      expect(await outbox.purgeDead({ retentionMs: 1 })).toMatchObject({ purged: 0 });
      finish.open();
      await reporting;
      expect(await outbox.purgeDead({ retentionMs: 1 })).toMatchObject({ purged: 1 });
    });

    it("MSG-04 leaves a message claimed that is replayed and claimed while it is reported", async () => {
      const replaying: (() => unknown)[] = [];
      const { outbox, clock, owner, ids } = await failed(1, () => replaying.shift()?.());
      const id = ids[0]!;
      const seen: unknown[] = [];
      replaying.push(async () => {
        await outbox.replay([{ id }], { ttlMs: 60_000 });
        seen.push(await outbox.get({ id }), ...(await outbox.claim({ owner })));
      });
      clock.advance(1_000);
      await outbox.expireFailed();
      expect(seen).toMatchObject([
        { id, state: "Ready", owner: null, lockedUntil: null },
        { id, owner, attempt: 0 },
      ]);
      expect((await outbox.ack(owner, [{ id }])).changed).toHaveLength(1);
      expect(await outbox.get({ id })).toMatchObject({ state: "Done" });
    });
  });
}
