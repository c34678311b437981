import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { messageTrace } from "../../../src/operators/operator-reads.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { activityLimits } from "../../../src/sql/store-options.js";
import type { TestDatabase } from "../harness.js";
import { setUpQueue } from "./set-up.js";
import { messages, type QueueContext } from "./support.js";

const minute = 60_000;

/** Topics whose messages were acknowledged without a handler. */
export function unhandledTests({ queue }: QueueContext): void {
  describe("unhandled topics", () => {
    it("ADD-12 adds up by topic, case-sensitively, the last seen first, and forgets a topic after 30 days", async () => {
      const { store, clock } = await queue();
      expect(await store.unhandled()).toEqual([]);
      await store.recordUnhandled([]);
      await store.recordUnhandled([
        { topic: "stripe.b", messages: 2 },
        { topic: "stripe.B", messages: 1 },
        { topic: "stripe.ß ☃", messages: 5_000_000_000 },
      ]);
      const first = clock();
      clock.advance(29 * 24 * 60 * minute);
      await store.recordUnhandled([{ topic: "stripe.b", messages: 40 }]);
      const second = clock();
      expect(await store.unhandled()).toEqual([
        { topic: "stripe.b", messages: 42, lastSeenAt: second },
        { topic: "stripe.B", messages: 1, lastSeenAt: first },
        { topic: "stripe.ß ☃", messages: 5_000_000_000, lastSeenAt: first },
      ]);
      expect(await store.unhandled({ limit: 1 })).toHaveLength(1);
      clock.advance(2 * 24 * 60 * minute);
      // seen again just when it would be forgotten: it goes on
      await store.recordUnhandled([{ topic: "stripe.B", messages: 1 }]);
      expect((await store.unhandled()).map(({ topic, messages }) => [topic, messages])).toEqual([
        ["stripe.B", 2],
        ["stripe.b", 42],
      ]);
      await expect(store.unhandled({ limit: 0 })).rejects.toThrow(ArgumentRangeError);
    });

    it("ADD-12 workers that record the same topics at once lose no message", async () => {
      const { store } = await queue();
      const topics = Array.from({ length: 20 }, (_, index) => ({ topic: `t.${index}`, messages: 1 }));
      const shuffled = (by: number) => topics.map((_, index) => topics[(index * 7 + by) % topics.length]!);
      await Promise.all(Array.from({ length: 8 }, (_, worker) => store.recordUnhandled(shuffled(worker))));
      const listed = await store.unhandled();
      expect(listed).toHaveLength(20);
      expect(new Set(listed.map(({ messages }) => messages))).toEqual(new Set([8]));
    });
  });
}

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
        { buckets: activityLimits.maxBuckets + 1 },
        { sinceMs: 10, buckets: 11 },
      ])
        await expect(store.activity(options), JSON.stringify(options)).rejects.toBeInstanceOf(
          ArgumentRangeError,
        );
      await expect(store.activity({ since: 1 } as object)).rejects.toBeInstanceOf(InvalidArgumentError);
    });
  });
}

/** Messages that belong together. */
export function correlationTests({ queue, keyOf, states }: QueueContext): void {
  describe("messages by correlation id", () => {
    it("MSG-14 finds all messages with the id, the oldest first, with their times and without their content", async () => {
      const { store, owner, clock } = await queue();
      const start = clock();
      await store.add(messages(3, { correlationId: "order 7" }));
      await store.add([...messages(1, { correlationId: "order 77" }), ...messages(1)]);
      const claimed = await store.claim({ owner });
      const [done, dead, waiting] = claimed.filter(({ correlationId }) => correlationId === "order 7");
      clock.advance(1_000);
      await store.abandon(owner, [done!], { delayMs: 1_000, error: "503" });
      await store.fail(owner, [dead!], "410");
      await store.release(owner, [waiting!]);
      clock.advance(1_000);
      const retried = await store.claim({ owner });
      await store.ack(
        owner,
        retried.filter(({ seq }) => seq === done!.seq),
      );
      const ended = new Date(start.getTime() + 1_000);
      const found = await store.byCorrelation("order 7");
      const common = { topic: "test", correlationId: "order 7", partitionKey: null, enqueuedAt: start };
      expect(found).toHaveLength(3);
      expect(found).toMatchObject([
        {
          key: keyOf(done!),
          state: states.done,
          attempt: 1,
          firstAttemptAt: ended,
          doneAt: clock(),
          diedAt: null,
        },
        {
          key: keyOf(dead!),
          state: states.dead,
          lastError: "410",
          firstAttemptAt: ended,
          doneAt: null,
          diedAt: ended,
        },
        {
          key: keyOf(waiting!),
          state: states.held,
          attempt: 0,
          firstAttemptAt: null,
          doneAt: null,
          diedAt: null,
        },
      ]);
      for (const message of found) {
        expect(message).toMatchObject(common);
        for (const name of ["payload", "headers", "hash"]) expect(message).not.toHaveProperty(name);
      }
      expect(await store.byCorrelation("order 7", { limit: 2 })).toEqual(found.slice(0, 2));
      expect(await store.byCorrelation("ORDER 7")).toEqual([]);
    });

    it("MSG-14 a message is found by its own id too, and returned once", async () => {
      const { store, held } = await queue();
      const [message] = await held(1);
      const own = message!.messageId;
      expect(await store.byCorrelation(own)).toMatchObject([{ key: keyOf(message!), messageId: own }]);
      await store.add(messages(1, { correlationId: own }));
      const found = await store.byCorrelation(own);
      expect(found.map(({ correlationId }) => correlationId)).toEqual([null, own]);
    });

    it("MSG-14 a message that was never claimed is found", async () => {
      const { store } = await queue();
      const [key] = await store.add(messages(1, { correlationId: "new" }));
      expect(await store.byCorrelation("new")).toMatchObject([
        { key: keyOf(key!), state: states.waiting, attempt: 0, lastError: null, firstAttemptAt: null },
      ]);
    });

    it("MSG-14 refuses invalid ids, and limits out of range", async () => {
      const { store } = await queue();
      for (const wrong of ["", 7, null, "x".repeat(256), "a\0b"])
        await expect(store.byCorrelation(wrong as string)).rejects.toBeInstanceOf(InvalidArgumentError);
      await expect(store.byCorrelation("a", { limit: 0 })).rejects.toBeInstanceOf(ArgumentRangeError);
    });
  });
}

/** The trace of an event through inbox and outbox. */
export function messageTraceTests(database: () => TestDatabase): void {
  const stores = async () => {
    const { settings, clock, owner } = await setUpQueue(database(), "inbox", {});
    const out = await setUpQueue(database(), "outbox", { clock });
    const inbox = createInbox(database().db, settings as object);
    const outbox = createOutbox(database().db, out.settings as object);
    const trace = (id: string) =>
      messageTrace({ inbox: operatorsOf(inbox), outbox: operatorsOf(outbox) }, id);
    return { inbox, outbox, clock, owner, trace };
  };

  describe("the trace of an event", () => {
    it("MSG-14 goes from the webhook to the published message, by the id of either", async () => {
      const { inbox, outbox, clock, owner, trace } = await stores();
      const received = clock();
      await inbox.receive({ source: "stripe", messageId: "evt_1", topic: "paid", payload: "secret" });
      await inbox.receive({ source: "github", messageId: "evt_2", topic: "push", payload: "" });
      clock.advance(1_000);
      const handled = clock();
      const [event] = await inbox.claim({ owner, batchSize: 1 });
      const id = await inbox.transaction(async (tx) => {
        await inbox.ack(owner, [event!], { tx });
        return outbox.enqueue({ topic: "receipt", payload: "secret", correlationId: "evt_1" }, { tx });
      });
      clock.advance(1_000);
      const published = clock();
      await outbox.ack(owner, await outbox.claim({ owner }));
      const found = await trace("evt_1");
      expect(found).toMatchObject([
        {
          queue: "inbox",
          key: { source: "stripe", messageId: "evt_1" },
          topic: "paid",
          enqueuedAt: received,
          doneAt: handled,
        },
        {
          queue: "outbox",
          key: { id },
          topic: "receipt",
          enqueuedAt: handled,
          doneAt: published,
          state: "Done",
        },
      ]);
      expect(found).toHaveLength(2);
      expect(JSON.stringify(found)).not.toContain("secret");
      // The outbox message leads back to the event by its correlation id.
      expect(await trace(id)).toEqual(found);
      expect(await trace("evt_3")).toEqual([]);
    });

    it("MSG-14 follows the correlation id of a received message", async () => {
      const { inbox, outbox, clock, trace } = await stores();
      const event = { payload: "", correlationId: "order 7" };
      await inbox.receive({ ...event, source: "erp", messageId: "m1", topic: "a" });
      clock.advance(1);
      await inbox.receive({ ...event, source: "crm", messageId: "m2", topic: "b" });
      await outbox.enqueue({ topic: "c", payload: "", correlationId: "order 7" });
      const found = await trace("m2");
      expect(found.map(({ queue, topic }) => [queue, topic])).toEqual([
        ["inbox", "a"],
        ["inbox", "b"],
        ["outbox", "c"],
      ]);
    });
  });
}
