import { describe, expect, it } from "vitest";
import { ArgumentRangeError } from "../../../src/errors.js";
import { replayDead } from "../../../src/operators/bulk-operations.js";
import type { PurgeDeadOptions } from "../../../src/queue/work-store.js";
import type { QueueContext } from "../queue/support.js";
import { isBabelfish, rowCount } from "../support/database.js";
import { fieldsOf } from "../support/recording-logger.js";
import { deadWith } from "./groups.js";

const day = 86_400_000;
const nothingPurged = { purged: 0, more: false, cursor: null };

/** `purgeDead`: which dead messages it deletes, when, and how many at a time. */
export function deadRetentionTests({ kind, database, queue, ids, keyOf, states }: QueueContext): void {
  const inSuffix = (name: string) =>
    database().db.dialect.name === "postgres"
      ? `_${name}`
      : name.replace(/^./, (first) => first.toUpperCase());

  describe("retention of dead messages", () => {
    it("ADD-02 purgeDead deletes the message, the state and the attempts of a dead message", async () => {
      const made = await queue();
      const { store, clock, names, log } = made;
      const [dead] = await deadWith(made, ["410"]);
      clock.advance(2 * day);
      expect(await store.purgeDead({ retentionMs: day })).toEqual({ ...nothingPurged, purged: 1 });
      expect(await store.get(keyOf(dead!))).toBeNull();
      for (const table of [names.message, names.state, names.object(inSuffix("attempts"))])
        expect(await rowCount(database(), table), table).toBe(0);
      expect(fieldsOf(log, "info", "purge dead")).toMatchObject([{ purged: 1 }]);
    });

    it("ADD-02 MID-10 purgeDead keeps every message that is not dead, however old", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const [done, dead, retried, leased] = await held(4);
      await store.ack(owner, [done!]);
      await store.fail(owner, [dead!], "no");
      await store.abandon(owner, [retried!]);
      const kept = [done!, retried!, leased!];
      const before = await Promise.all(kept.map((key) => stored(key)));
      clock.advance(3_650 * day);
      expect(await store.purgeDead({ retentionMs: 1 })).toMatchObject({ purged: 1 });
      expect(await Promise.all(kept.map((key) => stored(key)))).toEqual(before);
    });

    it("ADD-02 the retention counts from the death, not from the arrival", async () => {
      const made = await queue();
      const { store, clock, held, owner } = made;
      const [late] = await held(1);
      clock.advance(10 * day);
      await store.claim({ owner }); // its lease has expired
      await store.fail(owner, [late!], "no");
      clock.advance(2 * day);
      expect(await store.purgeDead({ retentionMs: 2 * day })).toEqual(nothingPurged);
      clock.advance(1);
      expect(await store.purgeDead({ retentionMs: 2 * day })).toMatchObject({ purged: 1 });
    });

    it("ADD-02 a message that was replayed and died again is kept for the whole retention again", async () => {
      const made = await queue();
      const { store, clock, owner } = made;
      const [dead] = await deadWith(made, ["410"]);
      clock.advance(5 * day);
      await store.replay([dead!]);
      expect(await store.purgeDead({ retentionMs: day })).toEqual(nothingPurged);
      await store.fail(owner, await store.claim({ owner }), "410 again");
      expect(await store.purgeDead({ retentionMs: day })).toEqual(nothingPurged);
      clock.advance(day + 1);
      expect(await store.purgeDead({ retentionMs: day })).toMatchObject({ purged: 1 });
    });

    it("IBX-101 ADD-02 deletes in batches, at most maxBatches, and continues at the cursor", async () => {
      const { store, owner, clock, held } = await queue();
      await store.fail(owner, await held(25), "no");
      clock.advance(2 * day);
      const first = await store.purgeDead({ retentionMs: day, batchSize: 10, maxBatches: 2 });
      expect(first).toEqual({ purged: 20, more: true, cursor: expect.any(Number) });
      expect(await store.countDead()).toBe(5);
      const rest = await store.purgeDead({ retentionMs: day, batchSize: 10, after: first.cursor! });
      expect(rest).toEqual({ ...nothingPurged, purged: 5 });
    });

    it("IBX-101 ADD-02 gets past dead messages that must be kept, and stops at younger ones", async () => {
      const { store, owner, clock, held } = await queue();
      const early = await held(10);
      await store.fail(owner, early.slice(5), "no");
      clock.advance(2 * day);
      await store.claim({ owner });
      await store.fail(owner, early.slice(0, 5), "no"); // the first five died today
      await store.fail(owner, await held(10), "no"); // and these arrived today
      const first = await store.purgeDead({ retentionMs: day, batchSize: 5, maxBatches: 1 });
      expect(first).toMatchObject({ purged: 0, more: true });
      const second = await store.purgeDead({
        ...{ retentionMs: day, batchSize: 5, maxBatches: 1 },
        after: first.cursor!,
      });
      expect(second).toMatchObject({ purged: 5, more: true });
      const third = await store.purgeDead({ retentionMs: day, batchSize: 5, after: second.cursor! });
      expect(third).toEqual(nothingPurged);
      expect(await store.countDead()).toBe(15);
    });

    it("ADD-02 there is no default retention, and one out of range is refused", async () => {
      const made = await queue();
      await deadWith(made, ["410"]);
      made.clock.advance(3_650 * day);
      const wrong = [
        ...[undefined, {}, { retentionMs: undefined }],
        ...[0, -1, Number.NaN, Number.NEGATIVE_INFINITY].map((retentionMs) => ({ retentionMs })),
        ...[0, 1.5, 1_001].map((batchSize) => ({ retentionMs: day, batchSize })),
      ];
      for (const options of wrong) {
        const call = async () => made.store.purgeDead(options as PurgeDeadOptions);
        await expect(call, JSON.stringify(options)).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      expect(await made.store.countDead()).toBe(1);
    });

    it("MID-14 ADD-02 the dead messages of some topics are deleted earlier, and those of others never", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const [noise] = await held(1, { topic: "debug.trace" });
      const [audit] = await held(1, { topic: "audit" });
      const [order] = await held(1, { topic: "order" });
      await store.fail(owner, [noise!, audit!, order!], "no");
      const retentions = [
        { topic: "audit", deadRetentionMs: Number.POSITIVE_INFINITY },
        { topic: "debug.*", deadRetentionMs: day },
      ];
      clock.advance(2 * day);
      const keep = { retentionMs: Number.POSITIVE_INFINITY, retentions };
      expect(await store.purgeDead(keep)).toEqual({ ...nothingPurged, purged: 1 });
      expect(await store.get(keyOf(noise!))).toBeNull();
      expect(await store.purgeDead({ retentionMs: day, retentions })).toEqual({
        ...nothingPurged,
        purged: 1,
      });
      expect(await store.get(keyOf(order!))).toBeNull();
      expect((await stored(audit!)).state).toBe(states.dead);
    });

    it("ADD-02 purgeDead keeps the archive and the records of operators, and adds no record", async () => {
      const made = await queue();
      const { store, clock, names } = made;
      const [archived, discarded] = await deadWith(made, ["410", "410", "503"]);
      await store.archive([archived!], { by: "alice" });
      await store.discard([discarded!], { by: "alice" });
      clock.advance(2 * day);
      expect(await store.purgeDead({ retentionMs: day })).toMatchObject({ purged: 1 });
      expect(await rowCount(database(), names.object(inSuffix("archive")))).toBe(1);
      expect((await store.operations()).map(({ action }) => action).sort()).toEqual(["archive", "discard"]);
      if (kind === "inbox") expect((await store.get(keyOf(archived!)))!.state).toBe(states.done);
    });

    it("ADD-02 an operation whose messages were purged meanwhile continues with the others and ends", async () => {
      const made = await queue();
      const { store, clock } = made;
      await deadWith(made, ["410", "410", "410"]);
      clock.advance(2 * day);
      const [young] = await deadWith(made, ["410"]);
      const { id } = await store.startOperation("replay", { error: "410" }, { by: "alice" });
      await store.continueOperation(id, { batchSize: 1 });
      expect(await store.purgeDead({ retentionMs: day })).toMatchObject({ purged: 2 });
      const result = await replayDead(store.operators, {}, { by: "alice", resume: id });
      expect(result).toMatchObject({ done: 2, operation: { endedAt: expect.any(Date) } });
      expect((await store.get(keyOf(young!)))!.state).toBe(states.waiting);
      expect(await store.countDead()).toBe(0);
    });

    it("ADD-02 a replay and a purge at the same time replay or delete each message as a whole", async (test) => {
      test.skip(await isBabelfish(database()), "Babelfish ignores lock hints");
      const made = await queue();
      const { store, clock, owner, held, names } = made;
      const dead = await held(40);
      await store.fail(owner, dead, "no");
      clock.advance(2 * day);
      const [replayed, { purged }] = await Promise.all([
        store.replay(dead),
        store.purgeDead({ retentionMs: day, batchSize: 7 }),
      ]);
      expect(replayed.changed.length + purged).toBeLessThanOrEqual(40);
      const left = (await store.list({ limit: 100 })).messages;
      expect(ids(left.filter(({ state }) => state === states.waiting))).toEqual(ids(replayed.changed));
      expect(left).toHaveLength(40 - purged);
      const orphans = `${names.state} where seq not in (select seq from ${names.message})`;
      expect(await rowCount(database(), orphans)).toBe(0);
    });
  });
}
