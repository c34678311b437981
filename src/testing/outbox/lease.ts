import { expect, it } from "vitest";
import { ArgumentRangeError } from "../../errors.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import { reasons } from "../../sql/reasons.js";
import type { ContractHarness } from "../harness.js";
import { claimAll, idsOf, messages, outboxTheme, stored } from "./support.js";

export function leaseContract(harness: ContractHarness): void {
  outboxTheme(harness, "leases and expiry", ({ database, box }) => {
    it("OBX-049 reaps every lease that is over, and none that is not", async () => {
      const { outbox, owner, clock } = await box();
      await outbox.enqueue(messages(5));
      const short = await outbox.claim({ owner, batchSize: 3, leaseMs: 10_000 });
      const long = await outbox.claim({ owner, batchSize: 2, leaseMs: 20_000 });

      clock.advance(10_000); // "until" includes the moment itself
      expect(await outbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      clock.advance(1);
      expect(await outbox.reapExpired()).toEqual({ reaped: 3, dead: 0, more: false });
      for (const message of short) expect((await stored(outbox, message)).state).toBe("Ready");
      for (const message of long) expect((await stored(outbox, message)).state).toBe("InProgress");
      expect(await outbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
    });

    it("OBX-050 reaping takes lock and owner off the message", async () => {
      const { outbox, owner, held, clock } = await box();
      const [message] = await held(1);
      clock.advance(30_001);
      await outbox.reapExpired();

      expect(await stored(outbox, message!)).toMatchObject({
        owner: null,
        lockedUntil: null,
        state: "Ready",
      });
      expect(idsOf((await outbox.ack(owner, [message!])).lost)).toEqual([message!.id]);
    });

    it("OBX-051 what was reaped is claimable again, after the back-off of the attempt that it counted as", async () => {
      const { outbox, held, clock } = await box();
      const [message] = await held(1);
      clock.advance(30_001);
      await outbox.reapExpired();
      const reaped = await stored(outbox, message!);
      expect(reaped).toMatchObject({ attempt: 1, afterCrash: true, lastError: reasons.leaseExpired });
      expect(reaped.nextAttemptAt).toEqual(new Date(message!.lockedUntil!.getTime() + 2_000));
      expect(await outbox.claim({ owner: newOwnerToken() })).toEqual([]);

      clock.advance(1_999);
      const [again] = await outbox.claim({ owner: newOwnerToken() });
      expect(again).toMatchObject({ id: message!.id, attempt: 1, afterCrash: true });
    });

    it("OBX-051 it makes no difference whether the reaper or the next claim finds a lost lease", async () => {
      const reapedBox = await box();
      const claimedBox = await box();
      const [reaped] = await reapedBox.held(1);
      const [claimed] = await claimedBox.held(1);
      reapedBox.clock.advance(31_000);
      await reapedBox.outbox.reapExpired();
      reapedBox.clock.advance(1_000);
      claimedBox.clock.advance(32_000);
      const owner = newOwnerToken();
      await reapedBox.outbox.claim({ owner });
      await claimedBox.outbox.claim({ owner });

      const common = {
        attempt: 1,
        afterCrash: true,
        owner,
        lastError: reasons.leaseExpired,
        state: "InProgress",
      };
      const lockedUntil = new Date(reapedBox.clock().getTime() + 30_000);
      expect(await stored(reapedBox.outbox, reaped!)).toMatchObject({ ...common, lockedUntil });
      expect(await stored(claimedBox.outbox, claimed!)).toMatchObject({ ...common, lockedUntil });
    });

    it("OBX-052 reaping touches nothing that is done, failed or waiting", async () => {
      const { outbox, owner, held, clock } = await box();
      const done = await held(1);
      await outbox.ack(owner, done);
      const failed = await held(1);
      await outbox.fail(owner, failed, "no");
      const given = await held(1);
      await outbox.abandon(owner, given);
      const [ready] = await outbox.enqueue(messages(1, { dueAt: new Date(clock().getTime() + 3_600_000) }));
      const keys = [...done, ...failed, ...given, { id: ready! }];
      const before = await Promise.all(keys.map((key) => stored(outbox, key)));
      clock.advance(86_400_000);

      expect(await outbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      expect(await Promise.all(keys.map((key) => stored(outbox, key)))).toEqual(before);
    });

    it("OBX-049 reaps in batches, as many as are allowed, and says whether more is left", async () => {
      const { outbox, held, clock } = await box();
      await held(7);
      clock.advance(30_001);
      expect(await outbox.reapExpired({ batchSize: 2, maxBatches: 2 })).toEqual({
        reaped: 4,
        dead: 0,
        more: true,
      });
      expect((await outbox.stats()).counts.InProgress).toBe(3);
      expect(await outbox.reapExpired({ batchSize: 2 })).toEqual({ reaped: 3, dead: 0, more: false });
    });

    it("OBX-049 a batch of the reaper is never larger than batchSize, leases and expired messages together", async () => {
      const { outbox, held, clock } = await box();
      await held(2);
      await outbox.enqueue(messages(2, { expiresAt: new Date(clock().getTime() + 1_000) }));
      clock.advance(30_001);
      const first = await outbox.reapExpired({ batchSize: 2, maxBatches: 1 });
      expect(first.reaped + first.dead).toBe(2);
      expect(first.more).toBe(true);
    });

    it("OBX-049 refuses batches of a size, or a number, that cannot be", async () => {
      const { outbox } = await box();
      for (const wrong of [0, -1, 1.5, Number.NaN, 1_001]) {
        const call = async () => outbox.reapExpired({ batchSize: wrong });
        await expect(call, `batchSize ${wrong}`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      for (const wrong of [0, -1, 1.5, Number.NaN]) {
        const call = async () => outbox.reapExpired({ maxBatches: wrong });
        await expect(call, `maxBatches ${wrong}`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("OBX-064 a message whose worker always dies ends Failed after the last attempt, found by claims", async () => {
      const { outbox, held, clock, dead } = await box({ retry: { maxAttempts: 3 } });
      const [message] = await held(1);
      for (const attempt of [1, 2]) {
        clock.advance(120_000);
        const [again] = await outbox.claim({ owner: newOwnerToken() });
        expect(again).toMatchObject({ id: message!.id, attempt });
      }
      clock.advance(120_000);
      expect(await outbox.claim({ owner: newOwnerToken() })).toEqual([]);

      expect(await stored(outbox, message!)).toMatchObject({
        state: "Failed",
        attempt: 3,
        owner: null,
        lockedUntil: null,
        lastError: reasons.leaseExpired,
      });
      expect(dead).toEqual([{ id: message!.id, reason: reasons.leaseExpired }]);
    });

    it("OBX-064 a message whose worker always dies ends Failed after the last attempt, found by the reaper", async () => {
      const { outbox, held, clock, dead } = await box({ retry: { maxAttempts: 2 } });
      const [message] = await held(1);
      clock.advance(120_000);
      expect(await outbox.reapExpired()).toEqual({ reaped: 1, dead: 0, more: false });
      await outbox.claim({ owner: newOwnerToken() });
      clock.advance(120_000);
      expect(await outbox.reapExpired()).toEqual({ reaped: 1, dead: 1, more: false });

      expect(await stored(outbox, message!)).toMatchObject({ state: "Failed", attempt: 2 });
      expect(dead).toEqual([{ id: message!.id, reason: reasons.leaseExpired }]);
    });

    it("OBX-064 a claim that finds only exhausted messages goes on to the live ones behind them", async () => {
      const { outbox, held, clock } = await box({ retry: { maxAttempts: 1 } });
      await held(3);
      clock.advance(120_000);
      const id = await outbox.enqueue({ topic: "t", payload: "live" });
      expect(idsOf(await outbox.claim({ owner: newOwnerToken() }))).toEqual([id]);
      expect((await outbox.stats()).counts.Failed).toBe(3);
    });

    it("ADD-11 after a crash each message of the batch is claimed alone, then the rest together again", async () => {
      const { outbox, held, clock } = await box();
      const crashed = await held(3);
      clock.advance(120_000);
      const healthy = await outbox.enqueue(messages(4));
      const owner = newOwnerToken();
      const alone: string[] = [];
      for (let n = 0; n < 3; n++) {
        const batch = await outbox.claim({ owner });
        expect(batch).toHaveLength(1);
        expect(batch[0]).toMatchObject({ afterCrash: true, attempt: 1 });
        alone.push(batch[0]!.id);
      }
      expect(alone.sort()).toEqual(idsOf(crashed));
      const together = await outbox.claim({ owner });
      expect(idsOf(together)).toEqual([...healthy].sort());
      expect(together.every((message) => !message.afterCrash)).toBe(true);
    });

    it("ADD-11 one that was reaped, and one that was released again, still comes alone", async () => {
      const { outbox, held, clock } = await box();
      const [poison] = await held(1);
      clock.advance(30_001);
      await outbox.reapExpired();
      clock.advance(60_000);
      await outbox.enqueue(messages(2));
      const owner = newOwnerToken();
      const first = await outbox.claim({ owner });
      expect(first).toMatchObject([{ id: poison!.id, afterCrash: true, attempt: 1 }]);
      await outbox.release(owner, first);
      expect(await outbox.claim({ owner })).toMatchObject([{ id: poison!.id, afterCrash: true, attempt: 1 }]);
    });

    it("ADD-11 one that came back from a crash and was then abandoned in order is claimed with the others again", async () => {
      const { outbox, held, clock } = await box();
      const [crashed] = await held(1);
      clock.advance(120_000);
      const owner = newOwnerToken();
      await outbox.abandon(owner, await outbox.claim({ owner }), { error: "503" });
      expect(await stored(outbox, crashed!)).toMatchObject({
        attempt: 2,
        afterCrash: false,
        lastError: "503",
      });
      clock.advance(120_000);
      const healthy = await outbox.enqueue(messages(2));
      expect(idsOf(await outbox.claim({ owner }))).toEqual([crashed!.id, ...healthy].sort());
    });

    it("ADD-11 a poison message ends Failed and costs its neighbours one attempt, no more", async () => {
      const { outbox, held, clock, dead } = await box({ retry: { maxAttempts: 4 } });
      const batch = await held(5);
      const poison = batch[2]!.id;
      for (let round = 0; round < 40; round++) {
        clock.advance(120_000);
        const owner = newOwnerToken();
        const claimed = await outbox.claim({ owner });
        // the process dies over the poison, and with it the whole batch goes unsettled
        if (!claimed.some((message) => message.id === poison)) await outbox.ack(owner, claimed);
      }
      expect(dead.map((letter) => letter.id)).toEqual([poison]);
      for (const message of batch.filter((one) => one.id !== poison)) {
        expect(await stored(outbox, message)).toMatchObject({ state: "Done", attempt: 1 });
      }
    });

    it("OBX-050 a worker that is late but was not yet found out may still settle", async () => {
      const { outbox, owner, held, clock } = await box();
      const [message] = await held(1);
      clock.advance(31_000);
      expect(idsOf((await outbox.ack(owner, [message!])).changed)).toEqual([message!.id]);
      expect((await stored(outbox, message!)).state).toBe("Done");
    });

    it("ADD-03 a message past its expiresAt is Failed by the claim that meets it, never handed out", async () => {
      const { outbox, owner, clock, dead } = await box();
      const expiresAt = new Date(clock().getTime() + 10_000);
      const id = await outbox.enqueue({ topic: "t", payload: "", expiresAt });
      const live = await outbox.enqueue({ topic: "t", payload: "" });
      clock.advance(10_000);

      expect(idsOf(await outbox.claim({ owner }))).toEqual([live]);
      expect(await stored(outbox, { id })).toMatchObject({
        state: "Failed",
        lastError: reasons.expired,
        expiresAt,
      });
      expect(dead).toEqual([{ id, reason: reasons.expired }]);
    });

    it("ADD-03 a message is handed out until the moment it expires, and its holder may then finish it", async () => {
      const { outbox, owner, clock, dead } = await box();
      const expiresAt = new Date(clock().getTime() + 10_000);
      const [a, b] = await outbox.enqueue(messages(2, { expiresAt }));
      clock.advance(9_999);
      const claimed = await outbox.claim({ owner });
      expect(idsOf(claimed)).toEqual([a!, b!].sort());

      clock.advance(5_000);
      expect(await outbox.reapExpired()).toMatchObject({ reaped: 0, dead: 0 });
      expect((await outbox.ack(owner, claimed)).changed).toHaveLength(2);
      expect(dead).toEqual([]);
    });

    it("ADD-03 the reaper fails expired messages too, those that wait for a retry included", async () => {
      const { outbox, owner, clock, dead } = await box();
      const expiresAt = new Date(clock().getTime() + 10_000);
      const ids = await outbox.enqueue([
        { topic: "t", payload: "tried", expiresAt },
        { topic: "t", payload: "future", expiresAt, dueAt: new Date(clock().getTime() + 60_000) },
      ]);
      const tried = await outbox.claim({ owner });
      await outbox.abandon(owner, tried, { error: "503" });
      clock.advance(10_000);

      expect(await outbox.reapExpired()).toEqual({ reaped: 0, dead: 2, more: false });
      expect(dead.map((letter) => letter.id).sort()).toEqual([...ids].sort());
      for (const id of ids) expect((await stored(outbox, { id })).state).toBe("Failed");
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("ADD-03 a claim finds the live messages behind any number of expired ones", async () => {
      const { outbox, owner, clock } = await box();
      await outbox.enqueue(messages(30, { expiresAt: new Date(clock().getTime() + 1) }));
      const [live] = await outbox.enqueue(messages(1, { dueAt: new Date(clock().getTime() + 1_000) }));
      clock.advance(1_000);
      expect(idsOf(await claimAll(outbox, owner, 10))).toEqual([live]);
      expect((await outbox.stats()).counts.Failed).toBe(30);
    });

    it("OBX-019 leases are compared with the database's clock when no test gives one", async () => {
      const { outbox, on } = await box({ realTime: true });
      await outbox.enqueue(messages(1));
      await outbox.claim({ owner: newOwnerToken(), leaseMs: 300_000 });
      const other = on(database().reopen());
      expect(await other.claim({ owner: newOwnerToken() })).toEqual([]);
      expect(await other.reapExpired()).toMatchObject({ reaped: 0 });
    });
  });
}
