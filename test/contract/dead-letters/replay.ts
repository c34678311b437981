import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import { discardDead, replayDead } from "../../../src/operators/bulk-operations.js";
import type { Operation } from "../../../src/queue/operators.js";
import { claimAll, type QueueContext } from "../queue/support.js";
import { deadWith } from "./groups.js";

const day = 86_400_000;
const many = (count: number, error: string): string[] => Array.from({ length: count }, () => error);

/** Replaying and discarding by filter. */
export function replayDeadTests({ queue, ids, keyOf }: QueueContext): void {
  describe("replay by filter", () => {
    it("ADD-02 replays the matching messages, records it and reports its progress", async () => {
      const made = await queue();
      const { store, owner, clock } = made;
      const wanted = await deadWith(made, many(5, "503"), "a");
      await deadWith(made, ["410"], "b");
      const filter = { topic: "a" };
      const dry = await replayDead(store, filter, { by: "alice", dryRun: true });
      expect(dry).toEqual({ matched: 5, done: 0, operation: null });
      expect(await store.operations()).toEqual([]);
      expect(await store.countDead()).toBe(6);

      const seen: Operation[] = [];
      const result = await replayDead(store, filter, { by: "alice", onProgress: (o) => seen.push(o) });
      expect(result).toMatchObject({ matched: 5, done: 5 });
      expect(seen.map(({ done }) => done)).toEqual([0, 5]);
      expect(await store.operations()).toEqual([result.operation]);
      expect(result.operation).toMatchObject({ action: "replay", by: "alice", filter, at: clock() });
      expect(ids(await claimAll(store, owner))).toEqual(ids(wanted));
      expect(await store.countDead()).toBe(1);
    });

    it("ADD-02 resumes where it was interrupted, with its own filter, and replays each message once", async () => {
      const made = await queue();
      const { store, owner, clock } = made;
      await deadWith(made, many(7, "503"), "a");
      const started = await store.startOperation("replay", { olderThanMs: 0, topic: "a" }, { by: "alice" });
      expect(started).toMatchObject({ matched: 7, done: 0, endedAt: null });
      const half = await store.continueOperation(started.id, { batchSize: 3 });
      expect(half).toMatchObject({ done: 3, endedAt: null });
      clock.advance(60_000);
      // Those that die again, and those that die for the first time, died after the operation began.
      const again = await claimAll(store, owner);
      expect(again).toHaveLength(3);
      await store.fail(owner, again, "503");
      await deadWith(made, ["503"], "a");

      const result = await replayDead(store, {}, { by: "bob", resume: started.id });
      expect(result).toMatchObject({ matched: 7, done: 7, operation: { by: "alice", endedAt: clock() } });
      expect(await claimAll(store, owner)).toHaveLength(4);
      expect(await store.countDead()).toBe(4);
      expect(await replayDead(store, {}, { by: "bob", resume: started.id })).toEqual(result);
      expect(await store.countDead()).toBe(4);
    });

    it("ADD-02 two callers that continue an operation at the same time replay each message once", async () => {
      const made = await queue();
      const { store, owner } = made;
      await deadWith(made, many(12, "503"));
      const { id } = await store.startOperation("replay", {}, { by: "alice" });
      const run = async () => {
        while ((await store.continueOperation(id, { batchSize: 2 })).endedAt === null);
      };
      await Promise.all([run(), run()]);
      expect(await store.operations()).toMatchObject([{ matched: 12, done: 12 }]);
      expect(await claimAll(store, owner)).toHaveLength(12);
    });

    it("ADD-02 the record has who started an operation and who resumed it last", async () => {
      const made = await queue();
      const { store, clock } = made;
      await deadWith(made, many(6, "503"));
      const at = clock();
      const { id, ...started } = await store.startOperation("replay", {}, { by: "alice" });
      expect(started).toMatchObject({ by: "alice", at, resumedBy: null, resumedAt: null });
      const next = { batchSize: 2 };
      expect(await store.continueOperation(id, next)).toMatchObject({ done: 2, resumedBy: null });
      clock.advance(60_000);
      const bob = { by: "alice", at, resumedBy: "bob", resumedAt: clock() };
      expect(await store.continueOperation(id, { ...next, resumedBy: "bob" })).toMatchObject({
        done: 4,
        ...bob,
      });
      clock.advance(60_000);
      expect(await store.continueOperation(id, { batchSize: 1 })).toMatchObject({ done: 5, ...bob });
      const carol = { by: "alice", at, resumedBy: "carol", resumedAt: clock() };
      const resumed = await replayDead(store, {}, { by: "carol", resume: id });
      expect(resumed).toMatchObject({ done: 6, operation: { ...carol, endedAt: clock() } });
      expect(await store.operation(id)).toMatchObject(carol);
      expect(await store.operations()).toMatchObject([carol]);
      // nothing is left to resume
      expect(await store.continueOperation(id, { resumedBy: "dave" })).toMatchObject(carol);
      for (const resumedBy of ["", " ", "x".repeat(300)])
        await expect(store.continueOperation(id, { resumedBy })).rejects.toBeInstanceOf(InvalidArgumentError);
    });

    it("ADD-02 an abort stops it between two batches, and the record has its progress", async () => {
      const made = await queue();
      const { store } = made;
      await deadWith(made, many(4, "503"));
      const stop = new AbortController();
      const options = { by: "alice", ratePerSecond: 2, signal: stop.signal };
      const onProgress = ({ done }: Operation) => done > 0 && stop.abort(new Error("stopped"));
      await expect(replayDead(store, {}, { ...options, onProgress })).rejects.toThrow("stopped");
      expect(await store.operations()).toMatchObject([{ matched: 4, done: 1, endedAt: null }]);
      expect(await store.countDead()).toBe(3);
    });

    it("ADD-02 discards by filter in the same way", async () => {
      const made = await queue();
      const { store } = made;
      await deadWith(made, ["410", "410", "503"]);
      const result = await discardDead(store, { error: "410" }, { by: "alice" });
      expect(result).toMatchObject({ matched: 2, done: 2, operation: { action: "discard" } });
      expect((await store.list()).messages).toMatchObject([{ lastError: "503" }]);
    });

    it("ADD-02 a replay is not continued as a discard, nor a discard as a replay", async () => {
      const made = await queue();
      const { store } = made;
      await deadWith(made, ["503"]);
      const by = "alice";
      const { id: replay } = await store.startOperation("replay", {}, { by });
      const { id: discard } = await store.startOperation("discard", {}, { by });
      for (const call of [
        () => discardDead(store, {}, { by, resume: replay }),
        () => replayDead(store, {}, { by, resume: discard }),
      ])
        await expect(call()).rejects.toBeInstanceOf(InvalidOperationError);
      expect(await store.countDead()).toBe(1);
    });

    it("ADD-02 a replay by keys is recorded, in the same transaction, when it has a name", async () => {
      const made = await queue();
      const { store, owner, clock } = made;
      const [first, second, third] = await deadWith(made, many(3, "503"));
      await store.replay([first!]);
      expect(await store.operations()).toEqual([]);
      const result = await store.operators.replay([first!, second!, third!], { by: "alice" });
      expect(ids(result.changed)).toEqual(ids([second!, third!]));
      expect(ids(result.lost)).toEqual(ids([first!]));
      expect(await store.operations()).toMatchObject([
        {
          ...{ action: "replay", by: "alice", at: clock(), matched: 3, done: 2, endedAt: clock() },
          filter: { keys: [keyOf(second!), keyOf(third!)] },
        },
      ]);
      expect(await claimAll(store, owner)).toHaveLength(3);
      await expect(store.operators.replay([first!], { by: "" })).rejects.toBeInstanceOf(InvalidArgumentError);
      expect(await store.operators.replay([], { by: "alice" })).toEqual({ changed: [], lost: [], dead: [] });
      expect(await store.operations()).toHaveLength(1);
    });

    it("ADD-02 an operation that matches nothing ends at once", async () => {
      const { store, clock } = await queue();
      const started = await store.startOperation("discard", { topic: "none" }, { by: "alice" });
      expect(started).toMatchObject({ matched: 0, done: 0, endedAt: clock() });
    });

    it("ADD-02 an unfinished operation is found by its id and listed before later ones", async () => {
      const made = await queue();
      const { store, clock } = made;
      await deadWith(made, ["503"]);
      const { id } = await store.startOperation("replay", {}, { by: "alice" });
      for (const topic of ["a", "b", "c"]) {
        clock.advance(1_000);
        await store.startOperation("replay", { topic }, { by: "bob" });
      }
      expect((await store.operations({ limit: 2 })).map(({ filter }) => filter)).toEqual([
        {},
        { topic: "c" },
      ]);
      expect(await store.operation(id.toUpperCase())).toMatchObject({ id, by: "alice", endedAt: null });
      expect(await store.operation("0c5b3bfe-8a0b-4d43-9c3e-0123456789ab")).toBeNull();
      await expect(store.operation("7")).rejects.toBeInstanceOf(InvalidArgumentError);
    });

    it("ADD-02 purgeOperations deletes records that ended before the retention, in batches, and no unfinished one", async () => {
      const made = await queue();
      const { store, clock } = made;
      await deadWith(made, many(2, "503"), "a");
      const unfinished = await store.startOperation("replay", { topic: "a" }, { by: "alice" });
      for (const topic of ["x", "y", "z"]) await store.startOperation("replay", { topic }, { by: "alice" });
      clock.advance(60 * day);
      const kept = await store.startOperation("replay", { topic: "late" }, { by: "alice" });
      clock.advance(30 * day);
      expect(await store.purgeOperations()).toEqual({ purged: 0, more: false });
      clock.advance(1);
      expect(await store.purgeOperations({ batchSize: 2, maxBatches: 1 })).toEqual({ purged: 2, more: true });
      expect(await store.purgeOperations({ batchSize: 2 })).toEqual({ purged: 1, more: false });
      expect((await store.operations()).map(({ id }) => id)).toEqual([unfinished.id, kept.id]);
      expect(await store.purgeOperations({ retentionMs: 30 * day })).toEqual({ purged: 1, more: false });
      expect(await replayDead(store, {}, { by: "bob", resume: unfinished.id })).toMatchObject({ done: 2 });
      for (const wrong of [{ retentionMs: 0 }, { batchSize: 0 }, { maxBatches: 0 }])
        await expect(store.purgeOperations(wrong)).rejects.toBeInstanceOf(ArgumentRangeError);
    });

    it("ADD-02 an empty error, which would match every message, is refused", async () => {
      const made = await queue();
      const { store } = made;
      await deadWith(made, ["503"]);
      const [error, by] = ["", "alice"];
      for (const call of [
        () => store.list({ error }),
        () => store.countDead({ error }),
        () => store.deadGroups({ error }),
        () => store.startOperation("discard", { error }, { by }),
        () => discardDead(store, { error }, { by, dryRun: true }),
      ])
        await expect(call()).rejects.toBeInstanceOf(InvalidArgumentError);
      expect(await store.countDead()).toBe(1);
      expect(await store.operations()).toEqual([]);
    });

    it("ADD-02 refuses invalid names, rates, filters and operations", async () => {
      const { store } = await queue();
      const by = "alice";
      const invalid = [
        () => replayDead(store, {}, { by: "" }),
        () => replayDead(store, {}, { by, rate: 1 } as { by: string }),
        () => replayDead(store, { state: "Dead" } as object, { by }),
        () => replayDead(store, {}, { by, resume: "7" }),
      ];
      for (const call of invalid) await expect(call()).rejects.toBeInstanceOf(InvalidArgumentError);
      for (const ratePerSecond of [0, -1, Number.NaN])
        await expect(replayDead(store, {}, { by, ratePerSecond })).rejects.toBeInstanceOf(ArgumentRangeError);
      const resume = "0c5b3bfe-8a0b-4d43-9c3e-0123456789ab";
      await expect(replayDead(store, {}, { by, resume })).rejects.toBeInstanceOf(InvalidOperationError);
      expect(await store.operations()).toEqual([]);
    });
  });
}
