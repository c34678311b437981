import { createHash } from "node:crypto";
import { afterEach, describe, expect, it, vi } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import type { IncomingMessage } from "../../../src/inbox/inbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { rowCount, shownRows } from "../support/database.js";
import { held, type InboxContext, stored } from "./support.js";

const hashOf = (content: string) => createHash("sha256").update(content).digest();

export function enqueueTests(context: InboxContext): void {
  const { database, freshInbox, message, messages } = context;

  describe("enqueue", () => {
    afterEach(() => {
      vi.useRealTimers();
    });

    it("IBX-013 another connection reads the whole received message", async () => {
      const { inbox, on, names, clock } = await freshInbox();
      const incoming: Required<IncomingMessage> = {
        source: "stripe",
        messageId: "evt_1",
        topic: "invoice.paid",
        type: "com.example.invoice.paid.v2",
        payload: '{"total":12}',
        hash: hashOf("12"),
        correlationId: "trace-1",
        partitionKey: "customer-7",
        headers: { "content-type": "application/json" },
        dueAt: new Date(clock().getTime() + 1_000),
        expiresAt: new Date(clock().getTime() + 9_000),
      };
      expect(await inbox.receive(incoming)).toBe("enqueued");

      const elsewhere = on(database().reopen());
      const { hash, ...content } = incoming;
      const found = await stored(elsewhere, incoming);
      expect(found).toMatchObject(content);
      expect(Buffer.from(found.hash!)).toEqual(hash);
      const shown = await shownRows(
        database(),
        `select Source, MessageId, Topic, Payload, Status, Phase from ${names.view}`,
      );
      expect(shown).toEqual([
        {
          Source: "stripe",
          MessageId: "evt_1",
          Topic: "invoice.paid",
          Payload: '{"total":12}',
          Status: "Processing",
          Phase: "waiting",
        },
      ]);
    });

    it("IBX-013 data is stored as JSON and read as data, singly and in a batch, and refused beside a payload", async () => {
      const { inbox } = await freshInbox();
      const { payload: _, ...key } = message();
      const { payload: __, ...other } = message();
      const data = { total: 12, lines: ["a", null] };
      expect(await inbox.receive({ ...key, data })).toBe("enqueued");
      expect(await inbox.enqueue([{ ...other, data }, message()])).toEqual(["enqueued", "enqueued"]);
      for (const one of [key, other])
        expect(await stored(inbox, one)).toMatchObject({ payload: JSON.stringify(data), data });
      const both = { ...message(), data } as never;
      await expect(inbox.receive(both)).rejects.toThrow("Give payload or data, not both.");
      await expect(inbox.enqueue([both])).rejects.toThrow("Give payload or data, not both.");
      await expect(inbox.receive({ ...other, data: 1n })).rejects.toThrow(/data cannot be written as JSON/);
    });

    it.each(["receive", "enqueue"] as const)(
      "IBX-014 %s returns each outcome, in the order of the messages",
      async (way) => {
        const { inbox, owner } = await freshInbox();
        const [waiting, leased, done, dead, seen, other] = messages(6, { hash: hashOf("same") });
        await inbox.enqueue([leased!, done!, dead!]);
        await inbox.claim({ owner });
        await inbox.ack(owner, [done!]);
        await inbox.fail(owner, [dead!], "broken");
        await inbox.alreadyProcessed(seen!);
        await inbox.enqueue([waiting!, other!]);
        const again = [waiting!, leased!, done!, dead!, seen!, { ...other!, hash: hashOf("x") }, message()];
        const expected = ["duplicate", "duplicate", "done", "dead", "enqueued", "conflict", "enqueued"];

        const outcomes: string[] = [];
        if (way === "enqueue") outcomes.push(...(await inbox.enqueue(again)));
        else for (const one of again) outcomes.push(await inbox.receive(one));
        expect(outcomes).toEqual(expected);
      },
    );

    it("IBX-014 a key that is in a batch several times is one message with the last content", async () => {
      const { inbox, names } = await freshInbox();
      const once = message();
      const twice = message({ payload: "first" });
      const batch = [twice, once, { ...twice, payload: "second" }, { ...twice, payload: "third" }];
      expect(await inbox.enqueue(batch)).toEqual(["enqueued", "enqueued", "duplicate", "duplicate"]);
      expect(await rowCount(database(), names.message)).toBe(2);
      expect(await stored(inbox, twice)).toMatchObject({ payload: "third", deliveries: 3 });
      expect(await stored(inbox, once)).toMatchObject({ deliveries: 1 });
    });

    it("IBX-014 a key that is in a batch with two hashes is a conflict", async () => {
      const { inbox } = await freshInbox();
      const twice = message({ hash: hashOf("one") });
      expect(await inbox.enqueue([twice, { ...twice, hash: hashOf("two") }])).toEqual([
        "enqueued",
        "conflict",
      ]);
    });

    it("IBX-014 a batch that is not a list is refused", async () => {
      const { inbox } = await freshInbox();
      await expect(inbox.enqueue(null as never)).rejects.toThrow(InvalidArgumentError);
      await expect(inbox.enqueue(message() as never)).rejects.toThrow(InvalidArgumentError);
    });

    it("IBX-014 a thousand messages in one batch are a thousand messages", async () => {
      const { inbox } = await freshInbox();
      const batch = messages(1_000);
      expect(await inbox.enqueue(batch)).toEqual(new Array(1_000).fill("enqueued"));
      expect(await inbox.enqueue([...batch].reverse())).toEqual(new Array(1_000).fill("duplicate"));
      expect((await inbox.stats()).counts.Processing).toBe(1_000);
    });

    it("IBX-014 a message of a batch with a reason to be dead is dead, and the others are enqueued", async () => {
      const died: unknown[] = [];
      const { inbox, owner } = await freshInbox({ onDead: (dead) => void died.push(dead) });
      const [good, bad, known, done] = messages(4);
      await inbox.enqueue([known!, done!]);
      await inbox.markProcessed(done!);
      const because = { dead: "The item of the batch is no JSON object." };
      const batch = [good!, { ...bad!, ...because }, { ...known!, ...because }, { ...done!, ...because }];
      expect(await inbox.enqueue(batch)).toEqual(["enqueued", "dead", "duplicate", "done"]);
      expect(await stored(inbox, bad!)).toMatchObject({ state: "Dead", lastError: because.dead });
      expect(await stored(inbox, done!)).toMatchObject({ state: "Done" });
      const { source, messageId } = bad!;
      expect(died).toEqual([{ message: { source, messageId }, reason: because.dead }]);
      expect(await inbox.enqueue(batch)).toEqual(["duplicate", "dead", "duplicate", "done"]);
      expect(died).toHaveLength(1);
      const claimed = await inbox.claim({ owner, batchSize: 10 });
      expect(claimed.map((one) => one.messageId).sort()).toEqual(
        [good!, known!].map((one) => one.messageId).sort(),
      );
      await expect(inbox.enqueue([{ ...message(), dead: 5 as never }])).rejects.toThrow(InvalidArgumentError);
    });

    it("IBX-014 ADD-01 a message that is dead on arrival takes new content, needs no reason, and does not block its partition", async () => {
      const { inbox, owner } = await freshInbox();
      const [changed, first, next] = messages(3);
      const hash = (value: number) => Uint8Array.of(value);
      await inbox.enqueue([{ ...changed!, hash: hash(1) }]);
      const batch = [
        { ...changed!, hash: hash(2), payload: "other", dead: "not JSON" },
        { ...first!, partitionKey: "k", dead: "" },
        { ...next!, partitionKey: "k" },
      ];
      expect(await inbox.enqueue(batch)).toEqual(["dead", "dead", "enqueued"]);
      expect(await stored(inbox, changed!)).toMatchObject({
        state: "Dead",
        lastError: "not JSON",
        payload: "other",
      });
      expect(await stored(inbox, first!)).toMatchObject({ state: "Dead", lastError: null });
      const claimed = await inbox.claim({ owner, batchSize: 10 });
      expect(claimed.map((one) => one.messageId)).toEqual([next!.messageId]);
      expect((await inbox.replay([first!])).changed).toHaveLength(1);
    });

    const refuses = (field: keyof IncomingMessage, values: readonly unknown[]) => async () => {
      const { inbox, names } = await freshInbox();
      for (const value of values) {
        const wrong = message({ [field]: value } as Partial<IncomingMessage>);
        await expect(inbox.receive(wrong)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.receive(wrong)).rejects.toThrow(new RegExp(`^${field} `));
        await expect(inbox.enqueue([message(), wrong])).rejects.toThrow(InvalidArgumentError);
      }
      expect(await rowCount(database(), names.message)).toBe(0);
    };
    it("IBX-016 a message without a source is refused", refuses("source", [null, undefined, "", 7]));
    it("IBX-017 a message without an id is refused", refuses("messageId", [null, undefined, "", 7]));
    it("IBX-015 IBX-018 a message that is no object, or an empty one, is refused", async () => {
      const { inbox } = await freshInbox();
      await expect(inbox.receive(null as never)).rejects.toThrow(InvalidArgumentError);
      await expect(inbox.receive({} as never)).rejects.toThrow(InvalidArgumentError);
      await expect(inbox.enqueue([undefined as never])).rejects.toThrow(InvalidArgumentError);
    });

    it("IBX-023 a Seen message that is enqueued with a due time waits for it", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const later = message({ dueAt: new Date(clock().getTime() + 60_000) });
      await inbox.alreadyProcessed(later);
      expect(await inbox.receive(later)).toBe("enqueued");
      clock.advance(59_999);
      expect(await inbox.claim({ owner })).toEqual([]);
      clock.advance(1);
      expect(await inbox.claim({ owner })).toHaveLength(1);
    });

    it("IBX-025 IBX-026 the times are the database's, not the process's", async () => {
      const { inbox } = await freshInbox({ realTime: true });
      const realMs = Date.now();
      const minutes = 60_000;
      const isReal = (date: Date) => Math.abs(date.getTime() - realMs) < 10 * minutes;
      const incoming = message();
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2001, 0, 1) });
      await inbox.receive(incoming);
      const first = await stored(inbox, incoming);
      vi.setSystemTime(Date.UTC(2099, 0, 1));
      await inbox.receive(incoming);
      const second = await stored(inbox, incoming);

      expect(isReal(first.firstSeenAt)).toBe(true);
      expect(isReal(second.lastSeenAt)).toBe(true);
      expect(second.firstSeenAt).toEqual(first.firstSeenAt);
      expect(second.lastSeenAt.getTime()).toBeGreaterThanOrEqual(first.lastSeenAt.getTime());
    });

    it("IBX-025 IBX-026 every redelivery updates the last-seen time and the count, never the first-seen time, of a done or dead message too", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const first = clock();
      const [waiting, done, dead] = messages(3);
      await inbox.enqueue([done!, dead!]);
      await inbox.claim({ owner });
      await inbox.ack(owner, [done!]);
      await inbox.fail(owner, [dead!], "broken");
      await inbox.receive(waiting!);
      clock.advance(5_000);
      await inbox.enqueue([waiting!, done!, dead!]);
      clock.advance(5_000);
      for (const one of [waiting!, done!, dead!]) {
        await inbox.receive(one);
        expect(await stored(inbox, one)).toMatchObject({
          firstSeenAt: first,
          lastSeenAt: clock(),
          deliveries: 3,
        });
      }
    });

    it("IBX-027 enqueueing a Seen message moves it to Processing", async () => {
      const { inbox, owner } = await freshInbox();
      const [single, inBatch] = messages(2, { payload: "content" });
      await inbox.alreadyProcessed(single!);
      await inbox.alreadyProcessed(inBatch!);
      expect(await inbox.claim({ owner })).toEqual([]);
      expect(await inbox.receive(single!)).toBe("enqueued");
      expect(await inbox.enqueue([inBatch!])).toEqual(["enqueued"]);
      for (const one of [single!, inBatch!]) {
        expect(await stored(inbox, one)).toMatchObject({ ...one, state: "Processing", attempt: 0 });
      }
      expect(await inbox.receive(single!)).toBe("duplicate");
      expect(await inbox.claim({ owner })).toHaveLength(2);
    });

    it("IBX-028 a done message that arrives again stays as it is", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const incoming = message({ payload: "handled", hash: hashOf("a"), headers: { a: "1" } });
      await inbox.ack(owner, [await held(inbox, owner, incoming)]);
      const before = await stored(inbox, incoming);
      clock.advance(1_000);
      const again = {
        ...incoming,
        topic: "other",
        payload: "other",
        headers: { a: "2" },
        correlationId: "other",
        dueAt: clock(),
        expiresAt: clock(),
      };
      expect(await inbox.receive(again)).toBe("done");
      expect(await inbox.enqueue([again])).toEqual(["done"]);
      expect(await stored(inbox, incoming)).toEqual({ ...before, lastSeenAt: clock(), deliveries: 3 });
      expect(await inbox.claim({ owner })).toEqual([]);
    });

    it("IBX-029 a Processing message that arrives again takes topic, payload, hash and due time", async () => {
      const { inbox, clock, owner } = await freshInbox();
      for (const again of [
        (one: IncomingMessage) => inbox.receive(one),
        (one: IncomingMessage) => inbox.enqueue([one]).then(([outcome]) => outcome),
      ]) {
        const incoming = message({ correlationId: "old", headers: { a: "1" } });
        await inbox.receive(incoming);
        const newer = {
          ...incoming,
          topic: "new.topic",
          payload: "new",
          hash: hashOf("new"),
          correlationId: "new",
          headers: { b: "2" },
          dueAt: new Date(clock().getTime() + 10_000),
        };
        expect(await again(newer)).toBe("duplicate");
        const { hash, ...content } = newer;
        const now = await stored(inbox, incoming);
        expect(now).toMatchObject({ ...content, state: "Processing", attempt: 0 });
        expect(Buffer.from(now.hash!)).toEqual(hash);
        expect(await inbox.claim({ owner })).toEqual([]);
        clock.advance(10_000);
        const [claimed] = await inbox.claim({ owner });
        expect(claimed).toMatchObject({ ...content, attempt: 0 });
        await inbox.ack(owner, [claimed!]);
      }
    });

    it("IBX-029 a redelivery without a due time makes a delayed message due at once", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const delayed = message({ dueAt: new Date(clock().getTime() + 3_600_000) });
      await inbox.receive(delayed);
      clock.advance(1_000);
      expect(await inbox.claim({ owner })).toEqual([]);
      await inbox.receive({ ...delayed, dueAt: null });
      expect((await stored(inbox, delayed)).dueAt).toBeNull();
      expect(await inbox.claim({ owner })).toHaveLength(1);
    });

    it("IBX-029 a redelivery does not shorten the back-off after a failed attempt", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const incoming = message();
      await inbox.abandon(owner, [await held(inbox, owner, incoming)], { delayMs: 60_000, error: "503" });
      expect(await inbox.receive({ ...incoming, payload: "newer" })).toBe("duplicate");
      expect(await stored(inbox, incoming)).toMatchObject({ attempt: 1, lastError: "503", payload: "newer" });
      clock.advance(59_999);
      expect(await inbox.claim({ owner })).toEqual([]);
      clock.advance(1);
      expect(await inbox.claim({ owner })).toHaveLength(1);
    });

    it("IBX-029 a due time after the back-off counts for a message that has failed before", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const incoming = message();
      await inbox.abandon(owner, [await held(inbox, owner, incoming)], { delayMs: 10_000 });
      await inbox.receive({ ...incoming, dueAt: new Date(clock().getTime() + 30_000) });
      clock.advance(29_999);
      expect(await inbox.claim({ owner })).toEqual([]);
      clock.advance(1);
      expect(await inbox.claim({ owner })).toHaveLength(1);
    });

    it("IBX-029 a leased message that arrives again keeps its lease and takes the new content", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const incoming = message({ payload: "old" });
      const claimed = await held(inbox, owner, incoming, 60_000);
      clock.advance(1_000);
      expect(await inbox.receive({ ...incoming, topic: "new.topic", payload: "new" })).toBe("duplicate");
      expect(await inbox.enqueue([{ ...incoming, topic: "new.topic", payload: "newer" }])).toEqual([
        "duplicate",
      ]);
      expect(await stored(inbox, incoming)).toEqual({
        ...claimed,
        topic: "new.topic",
        type: "new.topic",
        payload: "newer",
        lastSeenAt: clock(),
        deliveries: 3,
      });
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      expect((await inbox.ack(owner, [claimed])).changed).toEqual([claimed]);
      expect((await stored(inbox, incoming)).state).toBe("Done");
    });

    it("IBX-029 a dead message that arrives again takes the new content and stays dead", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const incoming = message({ payload: "old", hash: hashOf("old") });
      await inbox.fail(owner, [await held(inbox, owner, incoming)], "broken");
      clock.advance(1_000);
      const newer = { ...incoming, topic: "new.topic", payload: "new", dueAt: clock() };
      expect(await inbox.receive(newer)).toBe("dead");
      expect(await inbox.enqueue([newer])).toEqual(["dead"]);
      expect(await stored(inbox, incoming)).toMatchObject({
        state: "Dead",
        topic: "new.topic",
        payload: "new",
        dueAt: clock(),
        attempt: 1,
        lastError: "broken",
        deliveries: 3,
      });
      expect(await inbox.claim({ owner })).toEqual([]);
      await inbox.replay([incoming]);
      expect((await inbox.claim({ owner }))[0]).toMatchObject({ payload: "new", attempt: 0 });
    });

    it("IBX-029 deadOnRedelivery revive: a dead message that arrives again is claimable with attempt 0", async () => {
      const { inbox, clock, owner } = await freshInbox({ deadOnRedelivery: "revive" });
      const [single, inBatch, still] = messages(3, { payload: "old" });
      await inbox.enqueue([single!, inBatch!, still!]);
      await inbox.claim({ owner });
      await inbox.fail(owner, [single!, inBatch!, still!], "broken");
      clock.advance(1_000);
      expect(await inbox.receive({ ...single!, payload: "new" })).toBe("enqueued");
      expect(await inbox.enqueue([{ ...inBatch!, payload: "new" }])).toEqual(["enqueued"]);
      expect(await inbox.receive({ ...single!, payload: "new" })).toBe("duplicate");

      const claimed = await inbox.claim({ owner });
      expect(claimed.map((one) => one.messageId)).toEqual([single!.messageId, inBatch!.messageId]);
      for (const one of claimed) expect(one).toMatchObject({ payload: "new", attempt: 0, crashes: 0 });
      expect((await stored(inbox, still!)).state).toBe("Dead");
    });

    it("IBX-029 deadOnRedelivery revive: a message that expired in a claim is claimable as soon as it is revived", async () => {
      const { inbox, clock, owner } = await freshInbox({ deadOnRedelivery: "revive" });
      const expiresAt = new Date(clock().getTime() + 1_000);
      const [message] = messages(1);
      await inbox.receive({ ...message!, expiresAt });
      clock.advance(2_000);
      expect(await inbox.claim({ owner })).toEqual([]);
      expect((await stored(inbox, message!)).state).toBe("Dead");
      expect(await inbox.receive(message!)).toBe("enqueued");
      expect(await inbox.claim({ owner })).toHaveLength(1);
    });

    it("IBX-029 deadOnRedelivery revive: the due time of the redelivery counts, and a done message stays done", async () => {
      const { inbox, clock, owner } = await freshInbox({ deadOnRedelivery: "revive" });
      const [dead, done] = messages(2);
      await inbox.enqueue([dead!, done!]);
      await inbox.claim({ owner });
      await inbox.fail(owner, [dead!], "broken");
      await inbox.ack(owner, [done!]);
      const dueAt = new Date(clock().getTime() + 5_000);
      expect(await inbox.enqueue([{ ...dead!, dueAt }, done!])).toEqual(["enqueued", "done"]);
      expect(await inbox.claim({ owner })).toEqual([]);
      clock.advance(5_000);
      expect(await inbox.claim({ owner })).toHaveLength(1);
    });

    it("ADD-03 a message that expired before it arrived is never claimed, and the ones behind it are", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const expired = message({ expiresAt: new Date(clock().getTime() - 1) });
      const alive = message();
      await inbox.receive(expired);
      await inbox.receive(alive);
      const first = await inbox.claim({ owner, batchSize: 1 });
      expect(first.map((one) => one.messageId)).toEqual([alive.messageId]);
      expect((await stored(inbox, expired)).state).toBe("Dead");
    });

    it("ADD-03 a redelivery replaces the expiry of a waiting message", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const incoming = message({ expiresAt: new Date(clock().getTime() + 1_000) });
      const [forever] = messages(1, { expiresAt: new Date(clock().getTime() + 1_000) });
      const later = new Date(clock().getTime() + 60_000);
      await inbox.enqueue([incoming, forever!]);
      await inbox.receive({ ...incoming, expiresAt: later });
      await inbox.enqueue([{ ...forever!, expiresAt: null }]);
      expect((await stored(inbox, incoming)).expiresAt).toEqual(later);
      expect((await stored(inbox, forever!)).expiresAt).toBeNull();
      clock.advance(30_000);
      expect(await inbox.claim({ owner })).toHaveLength(2);
    });
  });
}
