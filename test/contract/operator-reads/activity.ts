import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { activityLimits } from "../../../src/sql/store-options.js";
import { messages, type QueueContext } from "../queue/support.js";

const minute = 60_000;

/** What happened in a queue over time. */
export function activityTests({ queue }: QueueContext): void {
  describe("activity", () => {
    it("MSG-14 counts enqueued, done and dead messages in each bucket, and those unfinished at its end", async () => {
      const { store, owner, clock } = await queue();
      await store.add(messages(6)); // before the time that is asked for
      clock.advance(10 * minute);
      const [done, dead, ...others] = await store.claim({ owner, batchSize: 6 });
      await store.ack(owner, [done!]);
      clock.advance(minute);
      await store.fail(owner, [dead!], "410");
      await store.add(messages(2));
      clock.advance(minute);
      await store.ack(owner, others.slice(0, 3));
      const { buckets, truncated } = await store.activity({ sinceMs: 4 * minute, buckets: 4 });
      expect(truncated).toBe(false);
      const at = (minutes: number) => new Date(clock().getTime() + minutes * minute);
      // What happens at the very end of the time is in its last bucket.
      expect(buckets).toEqual([
        { from: at(-4), until: at(-3), enqueued: 0, done: 0, dead: 0, unfinished: 6 },
        { from: at(-3), until: at(-2), enqueued: 0, done: 0, dead: 0, unfinished: 6 },
        { from: at(-2), until: at(-1), enqueued: 0, done: 1, dead: 0, unfinished: 5 },
        { from: at(-1), until: at(0), enqueued: 2, done: 3, dead: 1, unfinished: 3 },
      ]);
    });

    it("MSG-14 a replayed message counts as waiting, a discarded one does not count", async () => {
      const { store, owner, clock, held } = await queue();
      clock.advance(minute);
      const [replayed, discarded] = await held(2);
      await store.fail(owner, [replayed!, discarded!], "410");
      const counts = async () => (await store.activity({ sinceMs: minute, buckets: 1 })).buckets[0];
      expect(await counts()).toMatchObject({ enqueued: 2, dead: 2, done: 0, unfinished: 0 });
      await store.replay([replayed!]);
      await store.discard([discarded!], { by: "alice" });
      expect(await counts()).toMatchObject({ enqueued: 1, dead: 0, done: 0, unfinished: 1 });
    });

    it("MSG-14 ADD-17 a paused message is unfinished", async () => {
      const { store, owner } = await queue();
      await store.add(messages(2));
      await store.pause({ topic: messages(1)[0]!.topic }, { by: "alice" });
      expect(await store.claim({ owner })).toEqual([]);
      expect((await store.controls())[0]).toMatchObject({ waiting: 2 });
      expect((await store.activity({ sinceMs: minute, buckets: 1 })).buckets[0]!.unfinished).toBe(2);
    });

    it("MSG-14 an empty queue has empty buckets, of one day by default", async () => {
      const { store, clock } = await queue();
      const { buckets, truncated } = await store.activity();
      expect(truncated).toBe(false);
      expect(buckets).toHaveLength(activityLimits.buckets);
      expect(buckets[0]!.from).toEqual(new Date(clock().getTime() - 86_400_000));
      expect(buckets.at(-1)).toMatchObject({ until: clock(), enqueued: 0, done: 0, dead: 0, unfinished: 0 });
    });

    it("MSG-14 refuses times and numbers of buckets out of range", async () => {
      const { store } = await queue();
      for (const options of [
        { sinceMs: 0 },
        { sinceMs: Number.NaN },
        { sinceMs: activityLimits.sinceMs + 1 },
        { buckets: 0 },
        { buckets: 1.5 },
        { buckets: activityLimits.mostBuckets + 1 },
        { sinceMs: 10, buckets: 11 },
      ])
        await expect(store.activity(options), JSON.stringify(options)).rejects.toBeInstanceOf(
          ArgumentRangeError,
        );
      await expect(store.activity({ since: 1 } as object)).rejects.toBeInstanceOf(InvalidArgumentError);
    });
  });
}
