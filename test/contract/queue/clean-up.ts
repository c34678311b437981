import { describe, expect, it, onTestFinished, vi } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { purgeWithin } from "../../../src/queue/maintenance.js";
import type { Retention } from "../../../src/queue/retention.js";
import type { PurgeOptions, PurgeResult } from "../../../src/queue/work-store.js";
import { skipUnless } from "../harness.js";
import { inTransaction, isBabelfish, rowCount } from "../support/database.js";
import { type AnyMessage, messages, type QueueContext, type TestQueue } from "./support.js";

const day = 86_400_000;
const hour = 3_600_000;
const forEver = Number.POSITIVE_INFINITY;
const nothingPurged = { purged: 0, more: false, cursor: null };

/** One done message of each topic. In an inbox a topic may be a source and a topic: `noisy/a`. */
async function doneOf({ store, owner }: TestQueue, ...topics: readonly string[]): Promise<void> {
  await store.add(topics.map(messageOf));
  await store.ack(owner, await store.claim({ owner, batchSize: topics.length }));
}

const messageOf = (name: string) => {
  const [topic, source] = name.split("/").toReversed() as [string, string?];
  return { topic, payload: "", ...(source && { source }) };
};

const topicsLeft = async ({ store }: TestQueue): Promise<readonly string[]> =>
  (await store.list()).messages.map(({ topic }: AnyMessage) => topic).sort();

/** `purgeDone`: which rows it deletes, when, and how many at a time. */
export function cleanUpTests({ kind, database, queue, ids, keyOf, counts, states }: QueueContext): void {
  /** A transaction that ends with the test, also with one that fails: its locks would hold up the next one. */
  const openTransaction = async () => {
    const open = await database().begin();
    let hasEnded = false;
    const end = (how: "commit" | "rollback") => async () => {
      if (!hasEnded) await open[how]();
      hasEnded = true;
    };
    onTestFinished(end("rollback"));
    return { ...open, commit: end("commit"), rollback: end("rollback") };
  };

  describe("clean-up", () => {
    it("IBX-098 MID-10 purgeDone removes the message row and the state row of a done message", async () => {
      const { store, owner, clock, names, held, stored } = await queue();
      const [done, leased] = await held(2);
      await store.ack(owner, [done!]);
      clock.advance(2 * day);
      expect(await store.purgeDone({ retentionMs: day })).toEqual({ purged: 1, more: false, cursor: null });
      expect(await store.get(keyOf(done!))).toBeNull();
      expect(await rowCount(database(), names.message)).toBe(1);
      expect(await rowCount(database(), names.state)).toBe(1);
      expect(await stored(leased!)).toEqual(leased);
    });

    it("IBX-099 MID-10 purgeDone keeps every message that is not done, however old", async () => {
      const { store, owner, clock, names, held, stored } = await queue();
      const [done, dead, retried, leased] = await held(4);
      await store.ack(owner, [done!]);
      await store.fail(owner, [dead!], "no");
      await store.abandon(owner, [retried!]);
      const [fresh] = await store.add(messages(1));
      const kept = [dead!, retried!, leased!, fresh!];
      const before = await Promise.all(kept.map((key) => stored(key)));

      clock.advance(3_650 * day);
      expect(await store.purgeDone({ retentionMs: 1 })).toEqual({ purged: 1, more: false, cursor: null });
      expect(await store.get(keyOf(done!))).toBeNull();
      expect(await Promise.all(kept.map((key) => stored(key)))).toEqual(before);
      const left = (await store.list()).messages;
      expect(left).toHaveLength(4);
      expect(left.some((message) => message.state === states.done)).toBe(false);
      const orphans = `${names.state} where seq not in (select seq from ${names.message})`;
      expect(await rowCount(database(), orphans)).toBe(0);
    });

    it("IBX-100 MID-10 the retention is an option and counts from when the message was done", async () => {
      const { store, owner, clock } = await queue();
      await store.add(messages(1));
      clock.advance(10 * day);
      await store.ack(owner, await store.claim({ owner }));
      clock.advance(2 * day);
      expect((await store.purgeDone({ retentionMs: 2 * day })).purged).toBe(0);
      clock.advance(1);
      expect((await store.purgeDone({ retentionMs: 2 * day })).purged).toBe(1);
    });

    it("IBX-100 MID-10 purgeDone deletes the older of two done messages only", async () => {
      const { store, owner, clock, held } = await queue();
      const early = await held(1);
      await store.ack(owner, early);
      clock.advance(10_000);
      const late = await held(1);
      await store.ack(owner, late);
      expect(await store.purgeDone({ retentionMs: 10_001 })).toEqual(nothingPurged);
      clock.advance(2);
      expect(await store.purgeDone({ retentionMs: 10_001 })).toEqual({
        purged: 1,
        more: false,
        cursor: null,
      });
      expect(await store.get(keyOf(early[0]!))).toBeNull();
      expect(await store.get(keyOf(late[0]!))).not.toBeNull();
    });

    it("IBX-100 keeps 30 days by default", async () => {
      const { store, owner, clock, held } = await queue();
      await store.ack(owner, await held(1));
      clock.advance(30 * day);
      expect((await store.purgeDone()).purged).toBe(0);
      clock.advance(1);
      expect((await store.purgeDone()).purged).toBe(1);
    });

    it("IBX-101 MID-10 deletes in batches, at most maxBatches, and continues at the cursor", async () => {
      const { store, owner, clock, names, held } = await queue();
      await store.ack(owner, await held(25));
      clock.advance(2 * day);
      const first = await store.purgeDone({ retentionMs: day, batchSize: 10, maxBatches: 2 });
      expect(first).toEqual({ purged: 20, more: true, cursor: expect.any(Number) });
      expect(await rowCount(database(), names.message)).toBe(5);
      const done = names.object(database().db.dialect.name === "postgres" ? "_done" : "Done");
      expect(await rowCount(database(), done)).toBe(5);
      const rest = await store.purgeDone({ retentionMs: day, batchSize: 10, after: first.cursor! });
      expect(rest).toEqual({ purged: 5, more: false, cursor: null });
    });

    it("IBX-101 MID-10 bounded runs get past any number of rows that must be kept", async () => {
      const { store, owner, clock, held } = await queue();
      const claimed = await held(15);
      await store.fail(owner, claimed.slice(0, 10), "no");
      await store.ack(owner, claimed.slice(10));
      clock.advance(2 * day);
      let purged = 0;
      let runs = 0;
      let result: PurgeResult = { purged: 0, more: true, cursor: null };
      for (; runs < 10 && result.more; runs++) {
        const after = result.cursor === null ? {} : { after: result.cursor };
        result = await store.purgeDone({ retentionMs: day, batchSize: 5, maxBatches: 1, ...after });
        expect(result.purged).toBeLessThanOrEqual(5);
        purged += result.purged;
      }
      expect(result).toMatchObject({ more: false, cursor: null });
      expect(purged).toBe(5);
      expect(runs).toBeLessThanOrEqual(4);
      expect((await store.stats()).counts).toEqual(counts({ dead: 10 }));
    });

    it("IBX-101 MID-10 refuses retentions, batch sizes, numbers of batches and cursors out of range", async () => {
      const { store } = await queue();
      const wrong = [
        ...[0, -1, Number.NaN].map((retentionMs) => ({ retentionMs })),
        ...[0, -1, 1.5, 1_001].map((batchSize) => ({ batchSize })),
        ...[0, -1, 1.5, Number.NaN].map((maxBatches) => ({ maxBatches })),
        ...[-1, 1.5, Number.NaN].map((after) => ({ after })),
      ];
      for (const options of wrong) {
        const call = async () => store.purgeDone(options);
        await expect(call, String(Object.entries(options))).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("MID-14 the first retention that fits a message says how long it is kept, and the usual one all others", async () => {
      const made = await queue();
      const topics = ["audit.login", "debug.a", "debug.b", "debug", "Debug.a", "debug_a", "order"];
      await doneOf(made, ...topics);
      const retentions: readonly Retention[] = [
        { topic: "debug.b", retentionMs: 10 * hour },
        { topic: "debug.*", retentionMs: hour },
        { topic: "audit.*", retentionMs: forEver },
        { topic: "order", deadRetentionMs: day }, // says nothing of done messages
      ];
      const purge = async () => {
        await made.store.purgeDone({ retentionMs: 2 * day, retentions });
        return topicsLeft(made);
      };
      made.clock.advance(hour);
      expect(await purge()).toEqual(topics.toSorted());
      made.clock.advance(1);
      const withoutDebug = topics.filter((topic) => topic !== "debug.a").sort();
      expect(await purge()).toEqual(withoutDebug);
      made.clock.advance(10 * hour);
      expect(await purge()).toEqual(withoutDebug.filter((topic) => topic !== "debug.b"));
      made.clock.advance(366 * day);
      expect(await purge()).toEqual(["audit.login"]);
    });

    it("MID-14 a condition may name a source, or a source and a topic", async (test) => {
      test.skip(kind === "outbox", "no message of an outbox has a source");
      const made = await queue();
      await doneOf(made, "noisy/a", "noisy/b", "quiet/a", "quiet/b");
      made.clock.advance(2 * hour);
      const purge = async (...retentions: readonly Retention[]) => {
        await made.store.purgeDone({ retentionMs: forEver, retentions });
        const { messages: left } = await made.store.list();
        return left.map((message) => `${(message as unknown as { source: string }).source}/${message.topic}`);
      };
      const retentionMs = hour;
      expect(await purge({ source: "Noisy", retentionMs })).toHaveLength(4);
      expect(await purge({ source: "noisy", topic: "b*", retentionMs })).toEqual([
        "noisy/a",
        "quiet/a",
        "quiet/b",
      ]);
      expect(await purge({ source: "noisy", retentionMs })).toEqual(["quiet/a", "quiet/b"]);
      expect(await purge({ topic: "*", retentionMs })).toEqual([]);
    });

    it("MID-12 MID-14 a condition may name a type, which is that of the topic for a message without one", async () => {
      const { store, owner, clock } = await queue();
      const types = ["invoice.paid", "invoice.sent", "order.paid", undefined];
      await store.add(types.map((type) => ({ topic: "erp", payload: "", ...(type && { type }) })));
      await store.ack(owner, await store.claim({ owner, batchSize: 4 }));
      clock.advance(2 * hour);
      const purge = async (...retentions: readonly Retention[]) => {
        await store.purgeDone({ retentionMs: forEver, retentions });
        return (await store.list()).messages.map(({ type }: AnyMessage) => type).sort();
      };
      const retentionMs = hour;
      expect(await purge({ type: "Invoice.*", retentionMs })).toHaveLength(4);
      expect(await purge({ type: "invoice.paid", retentionMs })).toEqual([
        "erp",
        "invoice.sent",
        "order.paid",
      ]);
      expect(await purge({ topic: "other", type: "invoice.*", retentionMs })).toHaveLength(3);
      expect(await purge({ topic: "erp", type: "invoice.*", retentionMs })).toEqual(["erp", "order.paid"]);
      expect(await purge({ type: "erp", retentionMs })).toEqual(["order.paid"]);
    });

    it("MID-14 a source fits no message of an outbox", async (test) => {
      test.skip(kind === "inbox", "messages of an inbox have sources");
      const made = await queue();
      await doneOf(made, "t");
      made.clock.advance(2 * day);
      const retentions = [{ source: "t", retentionMs: hour }];
      expect(await made.store.purgeDone({ retentionMs: forEver, retentions })).toEqual(nothingPurged);
      expect(await made.store.purgeDone({ retentionMs: day, retentions })).toMatchObject({ purged: 1 });
    });

    it("MID-14 a condition deletes no message that is not done, however short the retention", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const [done, dead, retried, leased] = await held(4);
      await store.ack(owner, [done!]);
      await store.fail(owner, [dead!], "no");
      await store.abandon(owner, [retried!]);
      const [fresh] = await store.add(messages(1));
      const kept = [dead!, retried!, leased!, fresh!];
      const before = await Promise.all(kept.map((key) => stored(key)));
      clock.advance(3_650 * day);
      const retentions = [{ topic: "*", retentionMs: 1 }];
      expect(await store.purgeDone({ retentionMs: forEver, retentions })).toMatchObject({ purged: 1 });
      expect(await Promise.all(kept.map((key) => stored(key)))).toEqual(before);
    });

    it("MID-14 a purge gets past messages that others of its retentions keep, window by window", async () => {
      const made = await queue();
      await doneOf(made, ...Array.from({ length: 12 }, (_, n) => (n % 4 === 3 ? "debug" : "audit")));
      made.clock.advance(2 * hour);
      const retentions = [{ topic: "debug", retentionMs: hour }];
      const options = { retentionMs: forEver, retentions, batchSize: 3, maxBatches: 2 };
      const first = await made.store.purgeDone(options);
      expect(first).toEqual({ purged: 1, more: true, cursor: expect.any(Number) });
      const rest = { ...options, after: first.cursor!, maxBatches: 10 };
      expect(await made.store.purgeDone(rest)).toEqual({ ...nothingPurged, purged: 2 });
      expect(new Set(await topicsLeft(made))).toEqual(new Set(["audit"]));
    });

    it("MID-14 wrong retentions are refused, by their place and name", async () => {
      const { store } = await queue();
      const wrong: readonly [object, RegExp][] = [
        [{ topic: "a*b", retentionMs: 1 }, /retentions\[1\]\.topic may have a \* only at its end/],
        [{ topic: "", retentionMs: 1 }, /retentions\[1\]\.topic/],
        [{ type: "a*b", retentionMs: 1 }, /retentions\[1\]\.type may have a \* only at its end/],
        [{ source: 7, retentionMs: 1 }, /retentions\[1\]\.source/],
        [{ topics: "a", retentionMs: 1 }, /retentions\[1\]: unknown field topics/],
        [{ topic: "a" }, /retentions\[1\] must have a retentionMs/],
        [{ topic: "a", retentionMs: 0 }, /retentions\[1\]\.retentionMs/],
        [{ topic: "a", deadRetentionMs: hour }, /retentions\[1\]\.deadRetentionMs .*1 day/],
      ];
      for (const [retention, text] of wrong) {
        const retentions = [{ topic: "fine", retentionMs: 1 }, retention] as readonly Retention[];
        for (const purge of [store.purgeDone, store.purgeDead])
          await expect(async () => purge({ retentionMs: day, retentions })).rejects.toThrow(text);
      }
      const list = { topic: "a", retentionMs: 1 } as unknown as readonly Retention[];
      await expect(async () => store.purgeDone({ retentions: list })).rejects.toThrow(InvalidArgumentError);
    });

    it("MID-14 claims, settlements and new messages go on while the transaction of a clean-up is open", async (test) => {
      skipUnless(test, database(), "concurrentWriters");
      const made = await queue();
      const { store, owner, clock, held } = made;
      await doneOf(made, "debug", "debug", "order");
      const [dead] = await held(1);
      await store.fail(owner, [dead!], "no");
      clock.advance(2 * day);
      const retentions = [{ topic: "debug", retentionMs: hour, deadRetentionMs: day }];
      const open = await openTransaction();
      const inside = made.on(inTransaction(database().db, open.tx));
      expect(await inside.purgeDone({ retentions })).toMatchObject({ purged: 2 });
      expect(await inside.purgeDead({ retentionMs: day, retentions })).toMatchObject({ purged: 1 });

      const claimed = await held(3, { topic: "debug" });
      await store.ack(owner, claimed.slice(0, 1));
      await store.abandon(owner, claimed.slice(1, 2), { delayMs: 1 });
      clock.advance(30_001);
      expect(await store.reapExpired()).toMatchObject({ reaped: 1 });
      expect(ids(await store.claim({ owner }))).toEqual(ids(claimed.slice(1, 2)));
      await open.commit();
      expect((await store.stats()).counts).toEqual(counts({ done: 2, waiting: 1, held: 1 }));
    });

    it("MID-14 a clean-up passes over what another one deletes, and over what others have locked", async (test) => {
      skipUnless(test, database(), "rowLocks");
      test.skip(await isBabelfish(database()), "Babelfish ignores lock hints");
      const made = await queue();
      await doneOf(made, "debug", "debug", "order");
      made.clock.advance(2 * day);
      const open = await openTransaction();
      const inside = made.on(inTransaction(database().db, open.tx));
      expect(await inside.purgeDone({ retentions: [{ topic: "debug", retentionMs: hour }] })).toMatchObject({
        purged: 2,
      });
      await open.run(`update ${made.names.message} set topic = topic where topic = 'order'`);
      expect(await made.store.purgeDone({ retentionMs: hour })).toEqual(nothingPurged);
      await open.rollback();
      expect(await made.store.purgeDone({ retentionMs: hour })).toMatchObject({ purged: 3 });
    });

    it("MID-14 a clean-up with several retentions goes on where the last one stopped, and once an hour at the beginning", async () => {
      vi.useFakeTimers({ toFake: ["performance"] });
      onTestFinished(() => void vi.useRealTimers());
      const made = await queue();
      const { store, owner, clock } = made;
      const late = await made.held(1, { topic: "debug.late" });
      await doneOf(made, ...Array.from({ length: 8 }, () => "audit"), "debug.a");
      clock.advance(2 * hour);
      const options = { retentionMs: 30 * day, retentions: [{ topic: "debug.*", retentionMs: hour }] };
      const begins: (number | undefined)[] = [];
      const watchedStore = {
        purgeDone: (call: PurgeOptions = {}) => {
          begins.push(call.after);
          return store.purgeDone(call);
        },
      };
      const cleanUp = async () => {
        begins.length = 0;
        await purgeWithin(watchedStore, timeBudget(60_000), { ...options, batchSize: 4 });
        return topicsLeft(made);
      };
      expect(await cleanUp()).not.toContain("debug.a");
      expect(begins).toEqual([undefined, expect.any(Number), expect.any(Number)]);
      const stoppedAt = begins.at(-1);

      await store.claim({ owner }); // its lease has expired
      await store.ack(owner, late);
      await doneOf(made, "debug.b");
      clock.advance(2 * hour);
      expect(new Set(await cleanUp())).toEqual(new Set(["audit", "debug.late"]));
      expect(begins[0]).toBe(stoppedAt);
      vi.advanceTimersByTime(hour + 1);
      expect(await cleanUp()).not.toContain("debug.late");
      expect(begins[0]).toBeUndefined();
    });

    it("IBX-101 MID-10 purging an empty queue, and one with nothing old, does nothing", async () => {
      const { store, clock } = await queue();
      expect(await store.purgeDone()).toEqual(nothingPurged);
      const keys = await store.add(messages(3));
      clock.advance(day);
      expect(await store.purgeDone({ batchSize: 1 })).toEqual(nothingPurged);
      expect(ids(await store.claim({ owner: newOwnerToken() }))).toEqual(ids(keys));
    });
  });
}
