import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { Limit } from "../../../src/queue/operators.js";
import { skipUnless } from "../harness.js";
import { type AnyMessage, claimAll, messages, type QueueContext } from "../queue/support.js";

const by = { by: "alice" };
const payloadsOf = (claimed: readonly AnyMessage[]) =>
  claimed.map(({ topic, payload }) => `${topic} ${payload}`);
const payloads = (claimed: readonly AnyMessage[]) => claimed.map(({ payload }) => payload);

/** Limits. The clock is the test's, so what may be claimed is counted in tokens and not measured. */
export function limitTests({ queue, counts, keyOf, ids, database }: QueueContext): void {
  describe("limit", () => {
    it("ADD-17 allows so many messages of a topic per second, in their order; other topics are not limited", async () => {
      const { store, owner, clock } = await queue();
      await store.add([...messages(9, { topic: "mail" }), { topic: "other", payload: "other" }]);
      expect(await store.limit({ topic: "mail", perSecond: 3 }, by)).toEqual({
        scope: "topic",
        name: "mail",
        paused: false,
        perSecond: 3,
        waiting: 9,
        by: "alice",
        at: clock(),
      });
      expect(payloads(await store.claim({ owner }))).toEqual(["000", "other"]); // the first does not wait for a token
      expect(await store.claim({ owner })).toEqual([]);
      expect(await store.stats()).toMatchObject({ due: 8, counts: counts({ waiting: 8, held: 2 }) });
      const passed: string[][] = [];
      for (let second = 0; second < 3; second++) {
        clock.advance(1_000);
        passed.push(payloads(await store.claim({ owner })));
      }
      expect(passed).toEqual([
        ["001", "002", "003"],
        ["004", "005", "006"],
        ["007", "008"],
      ]);
      expect(await store.controls()).toMatchObject([{ perSecond: 3, waiting: 0 }]);
    });

    it("ADD-17 a topic that was paused and limited keeps to an older limit of the queue", async () => {
      const { store, owner, clock } = await queue();
      await store.limit({ perSecond: 1 }, by);
      await store.limit({ topic: "mail", perSecond: 100 }, by);
      await store.pause({ topic: "mail" }, by);
      await store.add(messages(5, { topic: "mail" }));
      clock.advance(1_000);
      expect(await store.claim({ owner })).toEqual([]);
      expect(await store.controls()).toMatchObject([{ waiting: 5 }, { waiting: 5 }]);
      await store.resume({ topic: "mail" }, by);
      const passed: string[][] = [];
      for (let second = 0; second < 5; second++) {
        clock.advance(1_000);
        passed.push(payloads(await store.claim({ owner })));
      }
      expect(passed).toEqual([["000"], ["001"], ["002"], ["003"], ["004"]]);
    });

    it("ADD-17 a message takes one token of each limit", async () => {
      const { store, owner, clock } = await queue();
      await store.limit({ perSecond: 2 }, by);
      await store.limit({ topic: "mail", perSecond: 1 }, by);
      await store.pause({ topic: "mail" }, by);
      await store.add(messages(4, { topic: "mail" }));
      clock.advance(1_000);
      expect(await store.claim({ owner })).toEqual([]);
      await store.resume({ topic: "mail" }, by);
      const passed: number[] = [];
      for (let second = 0; second < 4; second++) {
        clock.advance(1_000);
        passed.push((await claimAll(store, owner)).length);
      }
      expect(passed).toEqual([1, 1, 1, 1]);
    });

    it("ADD-17 unused tokens are kept for one second, and fractions of a token add up", async () => {
      const { store, owner, clock } = await queue();
      await store.limit({ topic: "test", perSecond: 4 }, by);
      await store.add(messages(8));
      clock.advance(3_600_000);
      expect(await store.claim({ owner })).toHaveLength(4);
      clock.advance(200);
      expect(await store.claim({ owner })).toHaveLength(0);
      clock.advance(100);
      expect(await store.claim({ owner })).toHaveLength(1);
      clock.advance(-60_000); // a clock that goes back gives nothing
      expect(await store.claim({ owner })).toHaveLength(0);
    });

    it("ADD-17 a limit below one per second; a claim without other messages does not wait for its token", async () => {
      const { store, owner, clock } = await queue();
      await store.limit({ topic: "test", perSecond: 0.1 }, by);
      await store.add(messages(3));
      expect(payloads(await store.claim({ owner }))).toEqual(["000"]);
      clock.advance(9_900);
      expect(await store.claim({ owner })).toEqual([]);
      clock.advance(100);
      expect(payloads(await store.claim({ owner }))).toEqual(["001"]);
    });

    it("ADD-17 retries count against the limit; messages that are not handled cost no attempt", async () => {
      const { store, owner, clock } = await queue();
      await store.limit({ topic: "test", perSecond: 0.5 }, by);
      await store.add(messages(2));
      const [first] = await store.claim({ owner });
      await store.abandon(owner, [first!], { delayMs: 100 });
      clock.advance(1_000);
      expect(await store.claim({ owner })).toEqual([]);
      clock.advance(1_000);
      expect(payloads(await store.claim({ owner }))).toEqual(["001"]);
      clock.advance(2_000);
      expect(await store.claim({ owner })).toMatchObject([{ payload: "000", attempt: 1 }]);
      clock.advance(2_000);
      expect(await store.claim({ owner })).toEqual([]);
    });

    it("ADD-17 a message of a limited topic in a limited queue needs a token of both", async () => {
      const { store, owner, clock } = await queue();
      await store.limit({ topic: "mail", perSecond: 0.5 }, by);
      expect(await store.limit({ perSecond: 1 }, by)).toMatchObject({ scope: "queue", name: null });
      await store.add([...messages(2, { topic: "mail" }), ...messages(2, { topic: "other" })]);
      const passed: string[][] = [];
      for (let second = 0; second < 5; second++) {
        passed.push((await claimAll(store, owner)).map(({ topic }) => topic));
        clock.advance(1_000);
      }
      expect(passed.every((claimed) => claimed.length <= 1)).toBe(true);
      expect(passed.flat().sort()).toEqual(["mail", "mail", "other", "other"]);
      expect(passed.slice(0, 2).flat()).not.toEqual(["mail", "mail"]);
    });

    it("ADD-17 a pause suspends a limit and keeps it; removing the limit releases the waiting messages", async () => {
      const { store, owner, clock } = await queue();
      await store.limit({ topic: "test", perSecond: 0.5 }, by);
      await store.add(messages(4));
      expect(await claimAll(store, owner)).toHaveLength(1);
      await store.pause({ topic: "test" }, by);
      clock.advance(10_000);
      expect(await store.claim({ owner })).toEqual([]);
      expect(await store.resume({ topic: "test" }, by)).toEqual({ wasPaused: true });
      expect(await claimAll(store, owner)).toHaveLength(1);
      await store.pause({ topic: "test" }, by);
      expect(await store.limit({ topic: "test", perSecond: null }, by)).toMatchObject({
        paused: true,
        perSecond: null,
        waiting: 2,
      });
      expect(await store.claim({ owner })).toEqual([]);
      await store.resume({ topic: "test" }, by);
      expect(payloads(await claimAll(store, owner))).toEqual(["002", "003"]);
      expect(await store.limit({ topic: "test", perSecond: 2 }, by)).toMatchObject({ perSecond: 2 });
      expect(await store.limit({ topic: "test", perSecond: 5 }, by)).toMatchObject({ perSecond: 5 });
      expect(await store.limit({ topic: "test", perSecond: null }, by)).toBeNull();
      expect(await store.limit({ topic: "test", perSecond: null }, by)).toBeNull();
      expect(await store.controls()).toEqual([]);
    });

    it("ADD-17 a claim that finds only limited messages waits for the next token", async () => {
      const { store, owner } = await queue({ realTime: true });
      await store.limit({ topic: "test", perSecond: 20 }, by);
      await store.add(messages(3));
      const claimed: AnyMessage[] = [];
      for (let claims = 0; claims < 3 && claimed.length < 3; claims++)
        claimed.push(...(await store.claim({ owner })));
      expect(payloads(claimed)).toEqual(["000", "001", "002"]);
    });

    it("ADD-17 an abort ends the wait for a token, and the message still waits", async () => {
      const { store, owner } = await queue();
      await store.limit({ topic: "test", perSecond: 1 }, by);
      await store.add(messages(2));
      expect(await store.claim({ owner })).toHaveLength(1);
      const reason = new Error("the host is shutting down");
      const stop = new AbortController();
      const waiting = store.claim({ owner, signal: stop.signal });
      setTimeout(() => stop.abort(reason), 50);
      await expect(waiting).rejects.toBe(reason);
      expect((await store.stats()).due).toBe(1);
    });

    it("ADD-17 concurrent claims of several processes take no more tokens than there are", async (test) => {
      skipUnless(test, database(), "severalConnections");
      const { store, on, clock } = await queue();
      await store.limit({ topic: "mail", perSecond: 7 }, by);
      await store.limit({ perSecond: 9 }, by);
      await store.add([...messages(30, { topic: "mail" }), ...messages(30, { topic: "other" })]);
      clock.advance(1_000);
      const processes = [database().reopen(), database().reopen(), database().reopen()];
      try {
        const claims = processes.flatMap((db) =>
          [1, 2].map(() => on(db).claim({ owner: newOwnerToken(), batchSize: 5 })),
        );
        const claimed = (await Promise.all(claims)).flat();
        expect(claimed).toHaveLength(9);
        expect(claimed.filter(({ topic }) => topic === "mail").length).toBeLessThanOrEqual(7);
        expect(new Set(payloadsOf(claimed)).size).toBe(9);
      } finally {
        await Promise.all(processes.map((db) => db.close()));
      }
    });

    it("ADD-17 a limit out of range is refused and limits nothing", async () => {
      const { store, owner } = await queue();
      await store.add(messages(2));
      for (const perSecond of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e-9, 2e6, "5", undefined]) {
        const call = async () => store.limit({ topic: "test", perSecond } as Limit, by);
        await expect(call, String(perSecond)).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      for (const limit of [null, undefined, { topic: "", perSecond: 1 }, { name: "x", perSecond: 1 }]) {
        const call = async () => store.limit(limit as unknown as Limit, by);
        await expect(call, JSON.stringify(limit)).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      await expect(async () =>
        store.limit({ topic: "test", perSecond: 1 }, {} as { by: string }),
      ).rejects.toBeInstanceOf(InvalidArgumentError);
      expect(await store.controls()).toEqual([]);
      expect(ids((await store.claim({ owner })).map(keyOf))).toHaveLength(2);
    });
  });
}
