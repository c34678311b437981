import { describe, expect, it } from "vitest";
import { ArgumentRangeError } from "../../errors.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import { reasons } from "../../sql/reasons.js";
import { holding } from "./settle.js";
import { type InboxContext, keyOf, keysOf, stored } from "./support.js";

const nothingReaped = { reaped: 0, dead: 0, more: false };

export function leaseTests(context: InboxContext): void {
  describe("leases", () => {
    it("IBX-068 reaps every lease that is over, and none that is not", async () => {
      const { inbox, owner, clock } = await context.freshInbox();
      await inbox.enqueue(context.messages(5));
      const short = await inbox.claim({ owner, batchSize: 3, leaseMs: 10_000 });
      const long = await inbox.claim({ owner, batchSize: 2, leaseMs: 20_000 });

      clock.advance(10_000); // a lease lasts until its end, and includes it
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
      clock.advance(1);
      expect(await inbox.reapExpired()).toEqual({ reaped: 3, dead: 0, more: false });
      for (const message of short) expect((await stored(inbox, message)).owner).toBeNull();
      for (const message of long) expect(await stored(inbox, message)).toEqual(message);
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
    });

    it("IBX-068 reaps in batches, as many as are allowed, and says whether more is left", async () => {
      const { inbox, clock, claimed } = await holding(context, 7);
      clock.advance(30_001);
      const first = await inbox.reapExpired({ batchSize: 2, maxBatches: 2 });
      expect(first).toEqual({ reaped: 4, dead: 0, more: true });
      const owners = await Promise.all(claimed.map(async (message) => (await stored(inbox, message)).owner));
      expect(owners.filter((owner) => owner === null)).toHaveLength(4);
      expect(await inbox.reapExpired({ batchSize: 2 })).toEqual({ reaped: 3, dead: 0, more: false });
    });

    it("IBX-068 one batch is never larger than batchSize, leases and expired messages together", async () => {
      const { inbox, clock } = await holding(context, 2);
      await inbox.enqueue(context.messages(2, { expiresAt: new Date(clock().getTime() + 1_000) }));
      clock.advance(30_001);
      const first = await inbox.reapExpired({ batchSize: 2, maxBatches: 1 });
      expect(first.reaped + first.dead).toBe(2);
      expect(first.more).toBe(true);
      const rest = await inbox.reapExpired({ batchSize: 2 });
      expect([first.reaped + rest.reaped, first.dead + rest.dead]).toEqual([2, 2]);
    });

    it("IBX-068 refuses sizes and numbers of batches that cannot be", async () => {
      const { inbox } = await context.freshInbox();
      for (const batchSize of [0, -1, 1.5, Number.NaN, 1_001]) {
        const call = async () => inbox.reapExpired({ batchSize });
        await expect(call, `batchSize ${batchSize}`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      for (const maxBatches of [0, -1, 1.5, Number.NaN]) {
        const call = async () => inbox.reapExpired({ maxBatches });
        await expect(call, `maxBatches ${maxBatches}`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("IBX-069 reaping takes owner and lock off the message, and its worker can settle it no more", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      clock.advance(30_001);
      await inbox.reapExpired();
      const free = { state: "Processing", owner: null, lockedUntil: null };
      expect(await stored(inbox, claimed[0]!)).toMatchObject(free);
      expect(keysOf((await inbox.ack(owner, claimed)).lost)).toEqual(keysOf(claimed));
      expect(await stored(inbox, claimed[0]!)).toMatchObject(free);
    });

    it("IBX-070 a reaped message is claimable after the back-off of the attempt that was lost, and not before", async () => {
      const { inbox, clock, claimed } = await holding(context, 1);
      const [message] = claimed;
      clock.advance(30_001);
      await inbox.reapExpired();
      const reaped = await stored(inbox, message!);
      expect(reaped).toMatchObject({ attempt: 1, afterCrash: true, lastError: reasons.leaseExpired });
      expect(reaped.nextAttemptAt).toEqual(new Date(message!.lockedUntil!.getTime() + 2_000));

      clock.advance(1_998);
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(1);
      const [again] = await inbox.claim({ owner: newOwnerToken() });
      expect(again).toMatchObject({ ...keyOf(message!), attempt: 1, afterCrash: true });
    });

    it("IBX-070 reaper or claim: whoever finds a lost lease, attempt and time are the same", async () => {
      const byReaper = await holding(context, 1);
      const byClaim = await holding(context, 1);
      byReaper.clock.advance(30_001);
      await byReaper.inbox.reapExpired();
      byReaper.clock.advance(1_998);
      byClaim.clock.advance(31_999);
      for (const { inbox, clock } of [byReaper, byClaim]) {
        expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
        clock.advance(1);
      }
      const owner = newOwnerToken();
      const found = [];
      for (const { inbox } of [byReaper, byClaim]) found.push((await inbox.claim({ owner }))[0]);
      const end = byClaim.clock().getTime() + 30_000;
      for (const message of found) {
        expect(message).toMatchObject({
          owner,
          attempt: 1,
          afterCrash: true,
          lastError: reasons.leaseExpired,
          lockedUntil: new Date(end),
          nextAttemptAt: new Date(end + 4_000),
        });
      }
    });

    it("IBX-071 reaping changes nothing that is Done, Dead, Seen, marked by hand or waiting", async () => {
      const { inbox, owner, clock } = await context.freshInbox();
      const [done, dead, retried] = context.messages(3);
      await inbox.enqueue([done!, dead!, retried!]);
      await inbox.claim({ owner });
      await inbox.ack(owner, [done!]);
      await inbox.fail(owner, [dead!], "no");
      await inbox.abandon(owner, [retried!]);
      const future = context.message({ dueAt: new Date(clock().getTime() + 3_600_000) });
      await inbox.receive(future);
      const [seen, marked] = context.messages(2).map(keyOf);
      await inbox.alreadyProcessed(seen!);
      await inbox.markProcessing(marked!);
      const keys = [done!, dead!, retried!, future, seen!, marked!];
      const before = await Promise.all(keys.map((key) => stored(inbox, key)));

      clock.advance(30 * 86_400_000);
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
      expect(await Promise.all(keys.map((key) => stored(inbox, key)))).toEqual(before);
    });

    it("IBX-071 an expired lease on what an operator marked Done or Dead meanwhile is nobody's", async () => {
      const { inbox, clock, claimed } = await holding(context, 2);
      await inbox.markProcessed(keyOf(claimed[0]!));
      await inbox.markDead(keyOf(claimed[1]!), "by hand");
      const before = await Promise.all(claimed.map((key) => stored(inbox, key)));
      clock.advance(60_000);
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
      expect(await Promise.all(claimed.map((key) => stored(inbox, key)))).toEqual(before);
    });

    it("ADD-11 after a crash each message of the batch is claimed alone, the others in the claims after", async () => {
      const { inbox, clock, claimed } = await holding(context, 3);
      clock.advance(120_000);
      const healthy = context.messages(4);
      await inbox.enqueue(healthy);
      const owner = newOwnerToken();
      const alone = [];
      for (let n = 0; n < 3; n++) {
        const batch = await inbox.claim({ owner });
        expect(batch).toHaveLength(1);
        expect(batch[0]).toMatchObject({ afterCrash: true, attempt: 1 });
        alone.push(batch[0]!);
      }
      expect(keysOf(alone)).toEqual(keysOf(claimed));
      const together = await inbox.claim({ owner });
      expect(keysOf(together)).toEqual(keysOf(healthy));
      expect(together.every((message) => !message.afterCrash)).toBe(true);
    });

    it("ADD-11 a message that the reaper found is claimed alone too, also after it was released", async () => {
      const { inbox, clock, claimed } = await holding(context, 1);
      clock.advance(30_001);
      await inbox.reapExpired();
      clock.advance(60_000);
      const healthy = context.messages(2);
      await inbox.enqueue(healthy);
      const owner = newOwnerToken();
      const alone = { ...keyOf(claimed[0]!), afterCrash: true, attempt: 1 };
      const first = await inbox.claim({ owner });
      expect(first).toMatchObject([alone]);
      await inbox.release(owner, first);
      expect(await inbox.claim({ owner })).toMatchObject([alone]);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf(healthy));
    });

    it("ADD-11 once a handler answered for it, it is claimed with the others again", async () => {
      const { inbox, clock, claimed } = await holding(context, 1);
      clock.advance(60_000);
      const owner = newOwnerToken();
      expect(await inbox.claim({ owner })).toMatchObject([{ afterCrash: true }]);
      await inbox.abandon(owner, claimed);
      clock.advance(60_000);
      await inbox.enqueue(context.messages(2));
      const together = await inbox.claim({ owner });
      expect(together.map((message) => message.afterCrash)).toEqual([false, false, false]);
    });

    it("renew extends the lease from now, so that neither claim nor reaper takes the message", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 2);
      clock.advance(25_000);
      const result = await inbox.renew(owner, [claimed[0]!, keyOf(claimed[1]!)], 30_000);
      expect(keysOf(result.changed)).toEqual(keysOf(claimed));
      const lockedUntil = new Date(clock().getTime() + 30_000);
      for (const message of claimed) {
        const kept = { owner, lockedUntil, attempt: 0, afterCrash: false };
        expect(await stored(inbox, message)).toMatchObject(kept);
      }
      clock.advance(30_000); // far past the first lease and its back-off
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(2_000); // the back-off after the renewed lease is over as well
      expect(await inbox.claim({ owner: newOwnerToken() })).toHaveLength(1);
    });

    it("renew may also shorten a lease", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      await inbox.renew(owner, claimed, 1_000);
      clock.advance(1_001);
      expect((await inbox.reapExpired()).reaped).toBe(1);
    });

    it("renew changes nothing of a lease that was lost to the reaper or to another worker", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      clock.advance(30_001);
      await inbox.reapExpired();
      const reaped = await stored(inbox, claimed[0]!);
      const lost = { changed: [], lost: claimed, dead: [] };
      expect(await inbox.renew(owner, claimed, 30_000)).toEqual(lost);
      expect(await stored(inbox, claimed[0]!)).toEqual(reaped);

      clock.advance(60_000);
      const [taken] = await inbox.claim({ owner: newOwnerToken() });
      expect(await inbox.renew(owner, claimed, 30_000)).toEqual(lost);
      expect(await stored(inbox, claimed[0]!)).toEqual(taken);
    });

    it("renew changes nothing for a foreign owner, and passes over keys that do not exist", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      expect((await inbox.renew(newOwnerToken(), claimed, 99_000)).changed).toEqual([]);
      expect(await stored(inbox, claimed[0]!)).toEqual(claimed[0]);
      const unknown = keyOf(context.message());
      const result = await inbox.renew(owner, [unknown, ...claimed], 99_000);
      expect(result.lost).toEqual([unknown]);
      expect(keysOf(result.changed)).toEqual(keysOf(claimed));
    });

    it("renew refuses a lease of no length, or of more than a year", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      for (const leaseMs of [0, -1, Number.NaN, 400 * 86_400_000, undefined as unknown as number]) {
        const call = async () => inbox.renew(owner, claimed, leaseMs);
        await expect(call, `${leaseMs}`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      expect(await stored(inbox, claimed[0]!)).toEqual(claimed[0]);
    });

    it("a worker that is late but was not found out may still settle", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      clock.advance(31_000);
      expect((await inbox.ack(owner, claimed)).changed).toHaveLength(1);
      expect(await stored(inbox, claimed[0]!)).toMatchObject({ state: "Done", attempt: 0 });
    });
  });
}
