import { describe, expect, it } from "vitest";
import { ArgumentRangeError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { reasons } from "../../../src/sql/dead-letters.js";
import { type AnyMessage, messages, type QueueContext } from "./support.js";

const nothingReaped = { reaped: 0, dead: 0, more: false };

/** Reaping and renewing leases, and what an expired lease does to its message. */
export function leaseTests({ queue, ids, keyOf, counts, states }: QueueContext): void {
  describe("reap", () => {
    it("IBX-068 OBX-049 reaps every expired lease and no other", async () => {
      const { store, owner, clock, stored } = await queue();
      await store.add(messages(5));
      const short = await store.claim({ owner, batchSize: 3, leaseMs: 10_000 });
      const long = await store.claim({ owner, batchSize: 2, leaseMs: 20_000 });

      clock.advance(10_000); // a lease includes the moment of its end
      expect(await store.reapExpired()).toEqual(nothingReaped);
      clock.advance(1);
      expect(await store.reapExpired()).toEqual({ reaped: 3, dead: 0, more: false });
      for (const message of short) {
        expect(await stored(message)).toMatchObject({ state: states.waiting, owner: null });
      }
      for (const message of long) expect(await stored(message)).toEqual(message);
      expect(await store.reapExpired()).toEqual(nothingReaped);
    });

    it("IBX-068 OBX-049 reaps in batches, at most maxBatches, and returns whether more is left", async () => {
      const { store, clock, held, stored } = await queue();
      const claimed = await held(7);
      clock.advance(30_001);
      const first = await store.reapExpired({ batchSize: 2, maxBatches: 2 });
      expect(first).toEqual({ reaped: 4, dead: 0, more: true });
      const owners = await Promise.all(claimed.map(async (message) => (await stored(message)).owner));
      expect(owners.filter((owner) => owner === null)).toHaveLength(4);
      expect((await store.stats()).counts).toEqual(counts({ waiting: 4, held: 3 }));
      expect(await store.reapExpired({ batchSize: 2 })).toEqual({ reaped: 3, dead: 0, more: false });
    });

    it("IBX-068 OBX-049 a batch of expired leases and expired messages together has at most batchSize", async () => {
      const { store, clock, held } = await queue();
      await held(2);
      await store.add(messages(2, { expiresAt: new Date(clock().getTime() + 1_000) }));
      clock.advance(30_001);
      const first = await store.reapExpired({ batchSize: 2, maxBatches: 1 });
      expect(first.reaped + first.dead).toBe(2);
      expect(first.more).toBe(true);
      const rest = await store.reapExpired({ batchSize: 2 });
      expect([first.reaped + rest.reaped, first.dead + rest.dead]).toEqual([2, 2]);
    });

    it("IBX-068 OBX-049 refuses a batchSize or maxBatches out of range", async () => {
      const { store } = await queue();
      for (const batchSize of [0, -1, 1.5, Number.NaN, 1_001]) {
        const call = async () => store.reapExpired({ batchSize });
        await expect(call, `batchSize ${batchSize}`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      for (const maxBatches of [0, -1, 1.5, Number.NaN]) {
        const call = async () => store.reapExpired({ maxBatches });
        await expect(call, `maxBatches ${maxBatches}`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("IBX-069 OBX-050 clears owner and lease, and the worker can no longer settle the message", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const claimed = await held(1);
      clock.advance(30_001);
      await store.reapExpired();
      const free = { state: states.waiting, owner: null, lockedUntil: null };
      expect(await stored(claimed[0]!)).toMatchObject(free);
      expect(ids((await store.ack(owner, claimed)).lost)).toEqual(ids(claimed));
      expect(await stored(claimed[0]!)).toMatchObject(free);
    });

    it("IBX-070 OBX-051 a message whose lease expired is claimable after its back-off, whether the reaper or a claim ends the lease", async () => {
      const byReaper = await queue();
      const byClaim = await queue();
      const [first] = await byReaper.held(1);
      await byClaim.held(1);
      byReaper.clock.advance(30_001);
      await byReaper.store.reapExpired();
      expect(await byReaper.stored(first!)).toMatchObject({
        attempt: 1,
        crashes: 1,
        lastError: reasons.leaseExpired,
        nextAttemptAt: new Date(first!.lockedUntil!.getTime() + 2_000),
      });
      byReaper.clock.advance(1_998);
      byClaim.clock.advance(31_999);
      const owner = newOwnerToken();
      for (const { store, clock, stored } of [byReaper, byClaim]) {
        expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);
        clock.advance(1);
        const [message] = await store.claim({ owner });
        const endMs = clock().getTime() + 30_000;
        const expected = {
          owner,
          state: states.held,
          attempt: 1,
          crashes: 1,
          lastError: reasons.leaseExpired,
          lockedUntil: new Date(endMs),
          nextAttemptAt: new Date(endMs + 4_000),
        };
        expect(message).toMatchObject(expected);
        expect(await stored(message!)).toMatchObject(expected);
      }
      expect(byReaper.clock()).toEqual(byClaim.clock());
    });

    it("IBX-071 OBX-052 leaves done, dead and waiting messages as they are", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const [done, dead, retried] = await held(3);
      await store.ack(owner, [done!]);
      await store.fail(owner, [dead!], "no");
      await store.abandon(owner, [retried!]);
      const [future] = await store.add(messages(1, { dueAt: new Date(clock().getTime() + 3_600_000) }));
      const keys = [done!, dead!, retried!, future!];
      const before = await Promise.all(keys.map((key) => stored(key)));
      clock.advance(30 * 86_400_000);
      expect(await store.reapExpired()).toEqual(nothingReaped);
      expect(await Promise.all(keys.map((key) => stored(key)))).toEqual(before);
    });
  });

  describe("crashes", () => {
    it("IBX-083 OBX-064 a message whose worker always dies is dead after its last attempt, whether a claim or the reaper finds it", async () => {
      const ends: Partial<AnyMessage>[] = [];
      for (const finder of ["claim", "reaper"] as const) {
        const { store, clock, dead, held, stored } = await queue({ retry: { maxAttempts: 3 } });
        const [message] = await held(1);
        // each claim comes when lease and back-off are over: 2 s after the first attempt, 4 s after the second
        for (const [attempt, seconds] of [
          [1, 32],
          [2, 34],
        ] as const) {
          clock.advance(seconds * 1_000);
          if (finder === "reaper") expect(await store.reapExpired()).toMatchObject({ reaped: 1, dead: 0 });
          const again = await store.claim({ owner: newOwnerToken() });
          expect(again, finder).toMatchObject([{ ...keyOf(message!), attempt }]);
        }
        clock.advance(38_000);
        if (finder === "reaper")
          expect(await store.reapExpired()).toEqual({ reaped: 1, dead: 1, more: false });
        else expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);

        expect(dead, finder).toEqual([{ id: ids([message!])[0], reason: reasons.leaseExpired }]);
        const { state, attempt, owner, lockedUntil, lastError } = await stored(message!);
        ends.push({ state, attempt, owner, lockedUntil, lastError });
        clock.advance(86_400_000);
        expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);
      }
      const end = {
        state: states.dead,
        attempt: 3,
        owner: null,
        lockedUntil: null,
        lastError: reasons.leaseExpired,
      };
      expect(ends).toEqual([end, end]);
    });

    it("IBX-083 OBX-064 a claim that finds only exhausted messages goes on to the live ones behind them", async () => {
      const { store, clock, dead, held } = await queue({ retry: { maxAttempts: 1 } });
      const exhausted = await held(3);
      clock.advance(120_000);
      const live = await store.add(messages(1));
      expect(ids(await store.claim({ owner: newOwnerToken() }))).toEqual(ids(live));
      expect(dead.map(({ id }) => id).sort()).toEqual(ids(exhausted));
      expect((await store.stats()).counts).toEqual(counts({ dead: 3, held: 1 }));
    });

    it("ADD-11 after one crash the messages are claimed together with the others, and before them", async () => {
      const { store, clock, held } = await queue();
      const crashed = await held(3);
      const healthy = await store.add(messages(4));
      clock.advance(120_000);
      const owner = newOwnerToken();
      const first = await store.claim({ owner, batchSize: 4 });
      expect(ids(first)).toEqual(ids([...crashed, healthy[0]!]));
      expect(first.map(({ crashes, attempt }) => [crashes, attempt])).toEqual([
        [1, 1],
        [1, 1],
        [1, 1],
        [0, 0],
      ]);
      expect(ids(await store.claim({ owner }))).toEqual(ids(healthy.slice(1)));
    });

    it("ADD-11 reaped and released messages are claimed before the others", async () => {
      const { store, owner, clock, held } = await queue();
      const [reaped, released] = [await held(2), await held(2)];
      await store.add(messages(5));
      clock.advance(20_000);
      await store.renew(owner, released, 30_000);
      clock.advance(10_001);
      expect(await store.reapExpired()).toMatchObject({ reaped: 2 });
      await store.release(owner, released);
      expect(ids(await store.claim({ owner, batchSize: 2 }))).toEqual(ids(released));
      clock.advance(10_000);
      expect(ids(await store.claim({ owner, batchSize: 2 }))).toEqual(ids(reaped));
    });

    it("ADD-11 after the second crash each message of the batch is claimed by itself, then the others together", async () => {
      const { store, clock, held } = await queue();
      const crashed = await held(3);
      clock.advance(120_000);
      expect(await store.claim({ owner: newOwnerToken() })).toHaveLength(3); // and this worker dies too
      clock.advance(120_000);
      const healthy = await store.add(messages(4));
      const owner = newOwnerToken();
      const singly: AnyMessage[] = [];
      for (let n = 0; n < 3; n++) {
        const batch = await store.claim({ owner });
        expect(batch).toHaveLength(1);
        expect(batch[0]).toMatchObject({ crashes: 2, attempt: 2 });
        singly.push(batch[0]!);
      }
      expect(ids(singly)).toEqual(ids(crashed));
      const together = await store.claim({ owner });
      expect(ids(together)).toEqual(ids(healthy));
      expect(together.every((message) => message.crashes === 0)).toBe(true);
    });

    it("ADD-11 a message whose second crash the reaper found is claimed by itself, also after a release", async () => {
      const { store, clock, held } = await queue();
      const [poison] = await held(1);
      clock.advance(120_000);
      await store.claim({ owner: newOwnerToken() });
      clock.advance(30_001);
      await store.reapExpired();
      clock.advance(60_000);
      const healthy = await store.add(messages(2));
      const owner = newOwnerToken();
      const suspect = { ...keyOf(poison!), crashes: 2, attempt: 2 };
      const first = await store.claim({ owner });
      expect(first).toMatchObject([suspect]);
      await store.release(owner, first);
      expect(await store.claim({ owner })).toMatchObject([suspect]);
      expect(ids(await store.claim({ owner }))).toEqual(ids(healthy));
    });

    it("ADD-11 a message that crashed twice and was then abandoned is claimed with the others again", async () => {
      const { store, clock, held, stored } = await queue();
      const [crashed] = await held(1);
      clock.advance(120_000);
      await store.claim({ owner: newOwnerToken() });
      clock.advance(120_000);
      const owner = newOwnerToken();
      const suspects = await store.claim({ owner });
      expect(suspects).toMatchObject([{ crashes: 2 }]);
      await store.abandon(owner, suspects, { error: "503" });
      expect(await stored(crashed!)).toMatchObject({ attempt: 3, crashes: 0, lastError: "503" });
      clock.advance(120_000);
      const healthy = await store.add(messages(2));
      const together = await store.claim({ owner });
      expect(ids(together)).toEqual(ids([crashed!, ...healthy]));
      expect(together.map((message) => message.crashes)).toEqual([0, 0, 0]);
    });

    it("ADD-11 a message that crashed and then failed keeps its number of crashes", async () => {
      const { store, clock, held, stored } = await queue();
      const [crashed] = await held(1);
      clock.advance(120_000);
      const owner = newOwnerToken();
      expect(await store.claim({ owner })).toMatchObject([{ crashes: 1 }]);
      await store.fail(owner, [crashed!], "410");
      expect(await stored(crashed!)).toMatchObject({ attempt: 2, crashes: 1, lastError: "410" });
    });

    it("ADD-11 a poison message ends dead and costs each of its neighbours two attempts at most", async () => {
      const { store, clock, dead, held, stored } = await queue({ retry: { maxAttempts: 4 } });
      const batch = await held(5);
      const later = await store.add(messages(20));
      const [poison] = ids([batch[2]!]);
      for (let round = 0; round < 40; round++) {
        clock.advance(120_000);
        const owner = newOwnerToken();
        const claimed = await store.claim({ owner, batchSize: 8 });
        // the process dies over the poison, and leaves its whole batch unsettled
        if (!ids(claimed).includes(poison!)) await store.ack(owner, claimed);
      }
      expect(dead.map(({ id }) => id)).toEqual([poison]);
      const attempts: number[] = [];
      for (const message of [...batch, ...later].filter((one) => ids([one])[0] !== poison)) {
        const { state, attempt } = await stored(message);
        expect(state).toBe(states.done);
        attempts.push(attempt);
      }
      expect(attempts).toEqual([2, 2, 2, 2, 1, 1, 1, ...Array(17).fill(0)]);
    });

    it("IBX-068 OBX-049 a late worker may still settle while its lease is not reaped", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const late = await held(1);
      clock.advance(31_000);
      expect(ids((await store.ack(owner, late)).changed)).toEqual(ids(late));
      expect(await stored(late[0]!)).toMatchObject({ state: states.done, attempt: 0 });
    });
  });

  describe("renew", () => {
    it("FUN-03 extends the lease from now, so that neither claim nor reaper takes the message", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const claimed = await held(2);
      clock.advance(25_000);
      const result = await store.renew(owner, [claimed[0]!, keyOf(claimed[1]!)], 30_000);
      expect(ids(result.changed)).toEqual(ids(claimed));
      const lockedUntil = new Date(clock().getTime() + 30_000);
      for (const message of claimed) {
        const kept = { owner, lockedUntil, attempt: 0, crashes: 0 };
        expect(await stored(message)).toMatchObject(kept);
      }
      clock.advance(30_000); // far past the first lease and its back-off
      expect(await store.reapExpired()).toEqual(nothingReaped);
      expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);
      expect((await store.ack(owner, [claimed[1]!])).changed).toHaveLength(1);
      expect((await stored(claimed[1]!)).attempt).toBe(0);
      clock.advance(2_000); // the back-off after the renewed lease is over as well
      expect(await store.claim({ owner: newOwnerToken() })).toHaveLength(1);
    });

    it("FUN-03 may also shorten a lease", async () => {
      const { store, owner, clock, held } = await queue();
      await store.renew(owner, await held(1), 1_000);
      clock.advance(1_001);
      expect((await store.reapExpired()).reaped).toBe(1);
    });

    it("FUN-03 refuses a lease time of zero or less, or of more than a year", async () => {
      const { store, owner, held, stored } = await queue();
      const claimed = await held(1);
      for (const leaseMs of [0, -1, Number.NaN, 400 * 86_400_000, undefined as unknown as number]) {
        const call = async () => store.renew(owner, claimed, leaseMs);
        await expect(call, `${leaseMs}`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      expect(await stored(claimed[0]!)).toEqual(claimed[0]);
    });
  });
}
