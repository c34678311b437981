import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import type { DeadFilter } from "../../../src/queue/operators.js";
import { reasons } from "../../../src/sql/dead-letters.js";
import { claimAll, type QueueContext, type TestQueue } from "../queue/support.js";

/** Adds one message for each error and makes it dead with it. */
export async function deadWith({ store, owner, held }: TestQueue, errors: readonly string[], topic = "test") {
  const claimed = await held(errors.length, { topic });
  for (const [index, error] of errors.entries()) await store.fail(owner, [claimed[index]!], error);
  return claimed;
}

/** Dead messages by their errors. */
export function deadGroupTests({ queue, ids, states }: QueueContext): void {
  describe("dead groups", () => {
    it("ADD-02 errors that differ in ids, quoted parts and numbers are one group, the largest group first", async () => {
      const made = await queue();
      const { store, clock } = made;
      const firstAt = clock();
      const [first] = await deadWith(made, [
        "order 1 of 'Ann' not found: 0c5b3bfe-8a0b-4d43-9c3e-0123456789ab",
      ]);
      clock.advance(5_000);
      const [, last] = await deadWith(made, [
        "ECONNREFUSED",
        "order 22 of 'Bob' not found: 4f5b3bfe-8a0b-4d43-9c3e-0123456789cd",
      ]);
      const [orders, refused, ...others] = await store.deadGroups();
      expect(others).toEqual([]);
      expect(orders).toMatchObject({ count: 2, firstAt, lastAt: clock() });
      expect(ids([first!, last!])).toContain(ids([orders!.example])[0]);
      expect(orders!.error).toBe((await store.get(orders!.example))!.lastError);
      expect(refused).toMatchObject({ count: 1, error: "ECONNREFUSED", firstAt: clock(), lastAt: clock() });

      const found = await store.list({ state: states.dead, errorGroup: orders!.errorGroup });
      expect(ids(found.messages)).toEqual(ids([first!, last!]));
      expect(await store.deadGroups({ errorGroup: refused!.errorGroup })).toEqual([refused]);
      expect(await store.deadGroups({ limit: 1 })).toEqual([orders]);
    });

    it("ADD-02 a message that dies of its attempts, lost leases or expiry is grouped, and purged after its retention", async () => {
      const made = await queue({ retry: { maxAttempts: 1 } });
      const { store, owner, held, clock } = made;
      await held(1);
      clock.advance(30_001);
      await store.reapExpired(); // its last attempt
      await held(1);
      clock.advance(300_000);
      await held(1, { expiresAt: new Date(clock().getTime() + 1_000) }); // this claim made the one before it dead
      await store.release(owner, (await store.list({ state: states.held })).messages);
      clock.advance(2_000);
      await store.reapExpired();
      await store.abandon(owner, await held(1), { error: "503" });
      const groups = await store.deadGroups();
      expect(groups.map(({ error, count }) => ({ error, count }))).toEqual(
        expect.arrayContaining([
          { error: reasons.leaseExpired, count: 2 },
          { error: reasons.expired, count: 1 },
          { error: "503", count: 1 },
        ]),
      );
      expect(groups).toHaveLength(3);
      expect(groups.every(({ firstAt, lastAt }) => firstAt <= lastAt && lastAt <= clock())).toBe(true);
      clock.advance(86_400_001);
      expect(await store.purgeDead({ retentionMs: 86_400_000 })).toMatchObject({ purged: 4 });
    });

    it("ADD-02 groups and counts take the filters of a list and leave out replayed messages", async () => {
      const made = await queue();
      const { store, clock } = made;
      const [gone] = await deadWith(made, ["410 Gone", "410 Gone"], "a");
      clock.advance(10_000);
      await deadWith(made, ["410 Gone"], "b");
      const counted = async (filter: Parameters<typeof store.countDead>[0]) => {
        const [group] = await store.deadGroups(filter);
        const count = await store.countDead(filter);
        expect(group?.count ?? 0).toBe(count);
        return count;
      };
      expect(await counted({})).toBe(3);
      expect(await counted({ topic: "a" })).toBe(2);
      expect(await counted({ topic: "A" })).toBe(0);
      expect(await counted({ error: "Gone", topic: "b" })).toBe(1);
      expect(await counted({ error: "gone" })).toBe(0);
      expect(await counted({ errorGroup: "unknown" })).toBe(0);
      await store.replay([gone!]);
      expect(await counted({ topic: "a" })).toBe(1);
      for (const wrong of [{ state: "Dead" }, { topics: "a" }]) {
        const call = async () => store.deadGroups(wrong as object);
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
    });

    it("ADD-02 the age of a dead message counts from its death in lists, counts, groups and operations", async () => {
      const made = await queue();
      const { store, owner, clock } = made;
      const [first, second] = await made.held(2);
      await store.fail(owner, [first!], "410 Gone");
      clock.advance(10_000);
      await store.fail(owner, [second!], "410 Gone");
      clock.advance(1_000);
      const waiting = await store.addOne({ topic: "waiting", payload: "" });
      const found = async (filter: DeadFilter) => {
        const { messages } = await store.list({ state: states.dead, ...filter });
        expect(await store.countDead(filter)).toBe(messages.length);
        expect((await store.deadGroups(filter))[0]?.count ?? 0).toBe(messages.length);
        const { matched } = await store.startOperation("replay", filter, { by: "alice" });
        expect(matched).toBe(messages.length);
        return ids(messages);
      };
      expect(await found({ olderThanMs: 1_000 })).toEqual(ids([first!, second!]));
      expect(await found({ olderThanMs: 1_001 })).toEqual(ids([first!]));
      expect(await found({ olderThanMs: 11_001 })).toEqual([]);
      expect(await found({ newerThanMs: 10_999 })).toEqual(ids([second!]));
      expect(await found({ newerThanMs: 999 })).toEqual([]);
      const inAnyState = async (filter: DeadFilter) => ids((await store.list(filter)).messages);
      expect(await inAnyState({ newerThanMs: 999 })).toEqual(ids([waiting]));
      expect(await inAnyState({ olderThanMs: 1_001 })).toEqual(ids([first!]));
    });

    it("ADD-02 only a dead message has the time of its death and its error group", async () => {
      const made = await queue();
      const { store, owner, clock } = made;
      const [kept, replayed] = await made.held(2);
      clock.advance(5_000);
      await store.fail(owner, [kept!, replayed!], "410 Gone");
      const died = { diedAt: clock(), errorGroup: (await store.deadGroups())[0]!.errorGroup };
      clock.advance(5_000);
      expect((await store.list({ state: states.dead })).messages).toMatchObject([died, died]);
      expect(await store.get(kept!)).toMatchObject(died);
      await store.replay([replayed!]);
      const none = { diedAt: null, errorGroup: null };
      expect(await store.get(replayed!)).toMatchObject({ ...none, lastError: "410 Gone" });
      expect(await claimAll(store, owner)).toMatchObject([none]);
      expect((await store.list({ topic: "test" })).messages).toMatchObject([died, none]);
    });
  });
}
