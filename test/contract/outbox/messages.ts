import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import {
  ArgumentRangeError,
  createOutbox,
  permanentFailure,
  retryAfter,
  type StreamedMessage,
} from "../../../src/index.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { skipUnless } from "../harness.js";
import { inSchemaOf, isBabelfish } from "../support/database.js";
import { fieldsOf } from "../support/recording-logger.js";
import { deadlock, watched } from "../support/watched.js";
import { type Box, numbered, type OutboxContext, stored } from "./support.js";

/** Of tests that wait for a message. */
const pollMs = 5;

type Messages = AsyncIterator<StreamedMessage>;

/** The next message. The loop must not have ended. */
async function taken(messages: Messages): Promise<StreamedMessage> {
  const { done, value } = await messages.next();
  expect(done).toBe(false);
  return value;
}

async function takenSeveral(messages: Messages, count: number): Promise<readonly StreamedMessage[]> {
  const all: StreamedMessage[] = [];
  for (let index = 0; index < count; index++) all.push(await taken(messages));
  return all;
}

const payloadsOf = (messages: readonly StreamedMessage[]): readonly string[] =>
  messages.map(({ payload }) => payload);

const atEnd = { done: true, value: undefined };

/** Of all messages that are not done: how many are held, and the sum of their attempts. */
async function unsettled({ outbox }: Pick<Box, "outbox">): Promise<{ held: number; attempts: number }> {
  const { messages } = await outbox.list({ limit: 1_000 });
  const open = messages.filter(({ state }) => state !== "Done");
  return {
    held: open.filter(({ owner }) => owner !== null).length,
    attempts: open.reduce((sum, { attempt }) => sum + attempt, 0),
  };
}

/** The outbox as an async iterable. */
export function messagesTests({ database, box }: OutboxContext): void {
  /** An outbox whose calls of the database are recorded. */
  const watchedBox = async () => {
    const made = await box();
    const db = watched(database().db);
    const calls = (name: string) => db.calls.filter((call) => call === name).length;
    return { ...made, outbox: made.on(db), calls };
  };

  describe("messages", () => {
    it("MID-13 hands out messages as handlers see them, and an acknowledged one is done", async () => {
      const { outbox } = await box();
      await outbox.enqueue({ topic: "order.created", data: { id: 7 }, correlationId: "c" });
      const seen: unknown[] = [];
      for await (const message of outbox.messages({ pollMs })) {
        const { topic, data, correlationId, attempt, state, ack } = message;
        seen.push({ topic, data, correlationId, attempt, state });
        expect(await ack()).toBe(true);
        expect(await stored(outbox, message)).toMatchObject({ state: "Done", attempt: 0 });
        break;
      }
      const handled = { topic: "order.created", data: { id: 7 }, correlationId: "c", attempt: 0 };
      expect(seen).toEqual([{ ...handled, state: "InProgress" }]);
    });

    it("MID-13 waits for messages that are enqueued later", async () => {
      const { outbox } = await box();
      const messages = outbox.messages({ pollMs });
      const waiting = taken(messages);
      await outbox.enqueue({ topic: "t", payload: "later" });
      expect(await (await waiting).ack()).toBe(true);
      await messages.return?.();
    });

    it("MID-13 ADD-01 hands out the messages of a partition key in the order of enqueueing, each when the one before it is settled", async () => {
      const { outbox, calls } = await watchedBox();
      const of = (partitionKey: string, ...payloads: string[]) =>
        payloads.map((payload) => ({ topic: "t", payload, partitionKey }));
      await outbox.enqueue([
        ...of("a", "a1", "a2", "a3"),
        ...of("b", "b1"),
        { topic: "t", payload: "plain" },
      ]);
      const messages = outbox.messages({ pollMs });
      const [a1, b1, plain] = await takenSeveral(messages, 3);
      expect(payloadsOf([a1!, b1!, plain!])).toEqual(["a1", "b1", "plain"]);
      let next: StreamedMessage | undefined;
      const coming = taken(messages).then((message) => {
        next = message;
      });
      await Promise.all([b1!.ack(), plain!.ack()]);
      const before = calls("claim");
      await expect.poll(() => calls("claim")).toBeGreaterThan(before + 2);
      expect(next).toBeUndefined();
      void a1!.ack();
      await coming;
      expect(next?.payload).toBe("a2");
      void next?.ack();
      expect((await taken(messages)).payload).toBe("a3");
      await messages.return?.();
    });

    it("MID-13 a nack counts an attempt, stores its reason and applies the back-off, until the message is dead", async () => {
      const { outbox, clock } = await box({ retry: { maxAttempts: 2, baseMs: 1_000, factor: 2 } });
      const id = await outbox.enqueue({ topic: "t", data: { card: "4111111111111111" } });
      const messages = outbox.messages({ pollMs });
      expect(await (await taken(messages)).nack(new TypeError("refused 4111111111111111"))).toBe(true);
      expect(await stored(outbox, { id })).toMatchObject({
        state: "Ready",
        attempt: 1,
        lastError: "TypeError: refused [payload]",
        nextAttemptAt: new Date(clock().getTime() + 2_000),
        owner: null,
      });
      const again = taken(messages);
      clock.advance(2_000);
      expect(await (await again).nack("the broker is away")).toBe(true);
      expect(await stored(outbox, { id })).toMatchObject({
        state: "Failed",
        attempt: 2,
        lastError: "the broker is away",
      });
      await messages.return?.();
    });

    it("MID-13 a nack takes a delay, and a reason for which no retry can help", async () => {
      const { outbox, clock } = await box();
      await outbox.enqueue(numbered(3));
      const messages = outbox.messages({ pollMs });
      const [later, untried, dead] = await takenSeveral(messages, 3);
      void later!.nack(retryAfter(90_000, "rate limited"));
      void untried!.nack(retryAfter(1_000, "closed", { costsAttempt: false }));
      expect(await dead!.nack(permanentFailure("410"))).toBe(true);
      await messages.return?.();
      expect(await stored(outbox, later!)).toMatchObject({
        attempt: 1,
        nextAttemptAt: new Date(clock().getTime() + 90_000),
      });
      expect(await stored(outbox, untried!)).toMatchObject({ attempt: 0 });
      expect(await stored(outbox, dead!)).toMatchObject({
        state: "Failed",
        lastError: "PermanentFailure: 410",
      });
    });

    it("MID-13 claims nothing while the loop has not taken what was claimed, and never holds more than batchSize", async () => {
      const made = await watchedBox();
      const { outbox, calls, log } = made;
      await outbox.enqueue(numbered(7));
      const messages = outbox.messages({ pollMs, batchSize: 3 });
      const first = await taken(messages);
      expect(await unsettled(made)).toEqual({ held: 3, attempts: 0 });
      const more = await takenSeveral(messages, 2);
      expect(calls("claim")).toBe(1);
      const fourth = taken(messages);
      await expect
        .poll(() =>
          fieldsOf(log, "warn", "batchSize messages are out; more come when ack() or nack() is called"),
        )
        .toMatchObject([{ batchSize: 3 }]);
      expect(calls("claim")).toBe(1);
      expect(await more[0]!.ack()).toBe(true);
      expect((await fourth).payload).toBe("003");
      expect(calls("claim")).toBe(2);
      expect(await unsettled(made)).toEqual({ held: 3, attempts: 0 });
      expect(await first.ack()).toBe(true);
      await messages.return?.();
    });

    it("MID-13 claims 100 messages by default", async () => {
      const made = await box();
      await made.outbox.enqueue(numbered(101));
      const messages = made.outbox.messages();
      await taken(messages);
      expect(await unsettled(made)).toEqual({ held: 100, attempts: 0 });
      await messages.return?.();
      expect(await unsettled(made)).toEqual({ held: 0, attempts: 0 });
    });

    it("MID-13 acknowledgements that are not awaited are sent together", async () => {
      const { outbox, calls } = await watchedBox();
      await outbox.enqueue(numbered(60));
      const settled: Promise<boolean>[] = [];
      for await (const message of outbox.messages({ pollMs })) {
        settled.push(message.ack());
        if (settled.length === 60) break;
      }
      expect(new Set(await Promise.all(settled))).toEqual(new Set([true]));
      expect((await outbox.stats()).counts).toMatchObject({ Done: 60 });
      expect(calls("ack")).toBeLessThan(30);
    });

    it("MID-13 renews the lease of a message that is out, also when later ones are taken", async () => {
      const { outbox, clock } = await box();
      await outbox.enqueue(numbered(2));
      const messages = outbox.messages({ pollMs, leaseMs: 1_500 });
      const [first, second] = await takenSeveral(messages, 2);
      const ends = (await stored(outbox, first!)).lockedUntil!;
      clock.advance(1_000);
      for (const message of [first!, second!])
        await expect
          .poll(async () => (await stored(outbox, message)).lockedUntil!.getTime())
          .toBe(ends.getTime() + 1_000);
      expect(await first!.ack()).toBe(true);
      expect(await second!.ack()).toBe(true);
      await messages.return?.();
    });

    it("MID-13 releases what the loop has not taken while it is at one message for longer than a lease", async () => {
      const made = await box();
      await made.outbox.enqueue(numbered(4));
      const messages = made.outbox.messages({ pollMs, leaseMs: 1_500 });
      const first = await taken(messages);
      await expect.poll(() => unsettled(made)).toEqual({ held: 1, attempts: 0 });
      expect(await first.ack()).toBe(true);
      expect((await taken(messages)).payload).toBe("001");
      await messages.return?.();
    });

    it("MID-13 abandons a message that is neither acknowledged nor given back in time", async () => {
      const { outbox, log } = await box();
      await outbox.enqueue(numbered(1));
      const messages = outbox.messages({ pollMs, timeoutMs: 50 });
      const forgotten = await taken(messages);
      await expect.poll(async () => (await stored(outbox, forgotten)).attempt).toBe(1);
      expect((await stored(outbox, forgotten)).lastError).toContain("neither acknowledged nor given back");
      expect(await forgotten.ack()).toBe(false);
      expect(fieldsOf(log, "warn", "message was not settled in time")).toHaveLength(1);
      await messages.return?.();
    });

    it("MID-13 is settled once: a second ack returns what the first did, and another call is false", async () => {
      const { outbox } = await box();
      await outbox.enqueue(numbered(2));
      const messages = outbox.messages({ pollMs });
      const [acked, nacked] = await takenSeveral(messages, 2);
      expect(await Promise.all([acked!.ack(), acked!.ack(), acked!.nack("no")])).toEqual([true, true, false]);
      expect(await acked!.ack()).toBe(true);
      expect(await Promise.all([nacked!.nack("no"), nacked!.ack()])).toEqual([true, false]);
      expect(await stored(outbox, acked!)).toMatchObject({ state: "Done", attempt: 0 });
      expect(await stored(outbox, nacked!)).toMatchObject({ state: "Ready", attempt: 1 });
      await messages.return?.();
    });

    it("MID-13 an ack after the lease was lost is false, and leaves the message to its new owner", async () => {
      const { outbox, clock, owner } = await box();
      await outbox.enqueue(numbered(1));
      const messages = outbox.messages({ pollMs });
      const message = await taken(messages);
      clock.advance(120_000); // the lease is over, and its back-off too
      expect(await outbox.claim({ owner })).toHaveLength(1);
      expect(await message.ack()).toBe(false);
      await messages.return?.();
      expect(await stored(outbox, message)).toMatchObject({ state: "InProgress", owner, attempt: 1 });
    });

    it("MID-13 a message whose lease was lost is no longer out: the loop may get it again", async () => {
      const { outbox, clock, owner } = await box();
      await outbox.enqueue(numbered(1));
      const messages = outbox.messages({ pollMs, leaseMs: 1_500, batchSize: 1 });
      const lost = await taken(messages);
      clock.advance(120_000);
      const [stolen] = await outbox.claim({ owner });
      if (stolen !== undefined)
        await outbox.release(owner, [stolen]); // unless a renewal was faster than the thief
      else await outbox.list();
      const again = stolen === undefined ? lost : await taken(messages);
      expect(await again.ack()).toBe(true);
      if (stolen !== undefined) expect(await lost.ack()).toBe(false);
      await messages.return?.();
    });

    it.each(["break", "throw"] as const)(
      "MID-13 a %s in the loop releases what was not acknowledged, at no attempt",
      async (how) => {
        const made = await box();
        const { outbox } = made;
        await outbox.enqueue(numbered(5));
        const out: StreamedMessage[] = [];
        const loop = async () => {
          for await (const message of outbox.messages({ pollMs })) {
            out.push(message);
            if (out.length === 1) void message.ack();
            if (out.length < 3) continue;
            if (how === "break") break;
            throw new Error("the loop failed");
          }
        };
        if (how === "break") await loop();
        else await expect(loop()).rejects.toThrow("the loop failed");
        expect((await outbox.stats()).counts).toMatchObject({ Done: 1, Ready: 4, InProgress: 0 });
        expect(await unsettled(made)).toEqual({ held: 0, attempts: 0 });
        expect(await out[1]!.ack()).toBe(false);
        expect(await out[0]!.ack()).toBe(true);
        const order = await outbox.claim({ owner: made.owner });
        expect(order.map(({ payload }) => payload)).toEqual(["001", "002", "003", "004"]);
      },
    );

    it("MID-13 an abort ends a loop that waits, without an error", async () => {
      const { outbox, calls } = await watchedBox();
      const stop = new AbortController();
      const loop = (async () => {
        const options = { pollMs: 600_000, signal: stop.signal };
        for await (const _ of outbox.messages(options)) throw new Error("no message");
      })();
      await expect.poll(() => calls("claim")).toBeGreaterThan(0);
      stop.abort();
      await loop;
    });

    it("MID-13 an abort lets the loop acknowledge the message that it is at, and releases the others", async () => {
      const made = await box();
      const { outbox } = made;
      await outbox.enqueue(numbered(4));
      const stop = new AbortController();
      let handled = 0;
      for await (const message of outbox.messages({ pollMs, signal: stop.signal })) {
        handled++;
        if (handled < 2) continue; // this one stays out
        stop.abort();
        await expect.poll(() => unsettled(made)).toEqual({ held: 2, attempts: 0 });
        expect(await message.ack()).toBe(true);
      }
      expect(handled).toBe(2);
      expect((await outbox.stats()).counts).toMatchObject({ Done: 1, Ready: 3, InProgress: 0 });
      expect(await unsettled(made)).toEqual({ held: 0, attempts: 0 });
    });

    it("MID-13 a signal that is aborted before the loop claims nothing, and neither does a stream that is not read", async () => {
      const { outbox, calls } = await watchedBox();
      await outbox.enqueue(numbered(1));
      for await (const _ of outbox.messages({ signal: AbortSignal.abort() })) throw new Error("no message");
      const unread = outbox.messages();
      expect(await unread.return?.()).toEqual(atEnd);
      expect(await unread.next()).toEqual(atEnd);
      expect(calls("claim")).toBe(0);
    });

    it("MID-13 a return ends the calls of next that wait", async () => {
      const { outbox } = await box();
      const messages = outbox.messages({ pollMs });
      const waiting = [messages.next(), messages.next()];
      await messages.return?.();
      expect(await Promise.all(waiting)).toEqual([atEnd, atEnd]);
      expect(await messages.next()).toEqual(atEnd);
    });

    it("MID-13 goes on after transient faults of the database, and logs them", async () => {
      const { outbox, on, log } = await box();
      const { db } = database();
      await outbox.enqueue(numbered(1));
      const failing = on(
        watched(
          db,
          Array.from({ length: 6 }, () => ({ fail: deadlock(db) })),
        ),
      );
      const messages = failing.messages({ pollMs });
      expect(await (await taken(messages)).ack()).toBe(true);
      expect(fieldsOf(log, "error", "claim failed")).toHaveLength(1);
      expect(fieldsOf(log, "warn", "database fault, trying again").length).toBeGreaterThan(3);
      await messages.return?.();
    });

    it("MID-13 throws a permanent fault of the database once, and releases what is out", async () => {
      const made = await box();
      const { outbox, on } = made;
      await outbox.enqueue(numbered(2));
      const fault = new Error("the disk is full");
      const failing = on(watched(database().db, ["run", { fail: fault }]));
      const messages = failing.messages({ pollMs, batchSize: 5 });
      const out = await takenSeveral(messages, 2);
      await expect(messages.next()).rejects.toBe(fault);
      expect(await messages.next()).toEqual(atEnd);
      expect(await unsettled(made)).toEqual({ held: 0, attempts: 0 });
      expect(await out[0]!.ack()).toBe(false);
    });

    it("MID-13 throws when its database is closed", async (test) => {
      skipUnless(test, database(), "severalConnections");
      const { on } = await box();
      const db = database().reopen();
      const messages = on(db).messages({ pollMs });
      const waiting = messages.next();
      const ended = expect(waiting).rejects.toBeInstanceOf(InvalidOperationError);
      await turn();
      await db.close();
      await ended;
    });

    it("MID-13 OBX-104 data is what the schema of its topic makes of it, and a message that does not fit is dead", async () => {
      const { outbox, table, clock } = await box();
      await outbox.enqueue([
        { topic: "order.created", data: { id: "no number" } },
        { topic: "order.created", data: { id: 7 } },
      ]);
      const schema = z.object({ id: z.number(), lines: z.array(z.string()).default([]) });
      const typed = createOutbox(database().db, {
        ...inSchemaOf(database()),
        table,
        clock,
        logger: false,
        topics: { "order.created": schema },
      });
      for await (const { data, ack } of typed.messages({ pollMs })) {
        const { id, lines } = data;
        expect({ id, lines }).toEqual({ id: 7, lines: [] });
        expect(await ack()).toBe(true);
        break;
      }
      expect((await outbox.list({ state: "Failed" })).messages).toMatchObject([
        { payload: '{"id":"no number"}', lastError: expect.stringContaining("does not fit its schema") },
      ]);
    });

    it("MID-13 ADD-11 a message that crashed twice is out by itself", async () => {
      const { outbox, clock, calls } = await watchedBox();
      await outbox.enqueue({ topic: "t", payload: "suspect" });
      for (let crash = 0; crash < 2; crash++) {
        expect(await outbox.claim({ owner: newOwnerToken(), leaseMs: 1_000 })).toHaveLength(1);
        clock.advance(60_000);
      }
      await outbox.enqueue(numbered(3));
      const before = calls("claim");
      const messages = outbox.messages({ pollMs, leaseMs: 1_500 });
      const suspect = await taken(messages);
      expect(suspect).toMatchObject({ payload: "suspect", crashes: 2 });
      let next: StreamedMessage | undefined;
      const coming = taken(messages).then((message) => {
        next = message;
      });
      await expect.poll(() => calls("renew")).toBeGreaterThan(0);
      expect(calls("claim")).toBe(before + 1);
      expect(next).toBeUndefined();
      expect(await suspect.ack()).toBe(true);
      await coming;
      expect(next?.payload).toBe("000");
      await messages.return?.();
    });

    it("MID-13 refuses options that it does not know, and wrong ones, when it is called", async () => {
      const { outbox } = await box();
      const call = (options: object) => () => outbox.messages(options);
      expect(call({ batch: 5 })).toThrow(InvalidArgumentError);
      expect(call({ signal: new AbortController() })).toThrow("signal must be an AbortSignal");
      expect(call({ batchSize: 0 })).toThrow(ArgumentRangeError);
      expect(call({ batchSize: 1_001 })).toThrow(ArgumentRangeError);
      for (const name of ["pollMs", "leaseMs", "timeoutMs"]) {
        expect(call({ [name]: 0 })).toThrow(ArgumentRangeError);
        expect(call({ [name]: "500" })).toThrow(ArgumentRangeError);
      }
    });

    it("MID-13 several loops on pools of their own never hold one message at once, and keep the order of each key", async () => {
      const slow = await isBabelfish(database());
      const count = slow ? 80 : 800;
      const keyCount = slow ? 4 : 12;
      const { outbox, on } = await box({ realTime: true });
      const keyOf = (index: number) => (index % 3 === 0 ? undefined : `k${index % keyCount}`);
      const all = numbered(count).map((message, index) => ({ ...message, partitionKey: keyOf(index) }));
      await outbox.enqueue(all);

      const out = new Set<string>();
      const order = new Map<string, string[]>();
      const done: string[] = [];
      const stop = new AbortController();
      const handle = async ({ id, payload, partitionKey, ack, nack }: StreamedMessage, round: number) => {
        const key = partitionKey ?? id;
        expect(out.has(key), `${payload} while it, or another of its key, is out`).toBe(false);
        out.add(key);
        if (round % 5 === 0) await turn();
        out.delete(key);
        if (round % 7 === 0) {
          await nack(retryAfter(1, "once more", { costsAttempt: false }));
          return;
        }
        order.set(key, [...(order.get(key) ?? []), payload]);
        done.push(payload);
        if (done.length === count) stop.abort();
        expect(await ack()).toBe(true);
      };
      /** Each loop breaks now and then, so that its messages are released and go to others. */
      const work = async (seed: number): Promise<void> => {
        const from = on(seed === 0 ? database().db : database().reopen());
        for (let round = seed + 1; done.length < count; ) {
          const options = { pollMs, batchSize: 1 + ((seed * 5) % 9), signal: stop.signal };
          for await (const message of from.messages(options)) {
            await handle(message, ++round);
            if (round % 11 === 0) break;
          }
        }
      };
      await Promise.all([0, 1, 2, 3].map(work));
      expect([...done].sort()).toEqual(all.map(({ payload }) => payload));
      for (const [key, payloads] of order)
        expect(payloads, key).toEqual([...payloads].sort((a, b) => Number(a) - Number(b)));
      expect((await outbox.stats()).counts).toMatchObject({ Done: count, Ready: 0, InProgress: 0 });
    });
  });
}
