import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import type { OutgoingMessage } from "../../../src/queue/message.js";
import { skipUnless } from "../harness.js";
import { rowCount, untilBlocked } from "../support/database.js";
import { fieldsOf } from "../support/recording-logger.js";
import { numbered, type OutboxContext, stored } from "./support.js";

const guid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** For what TypeScript would not let through. */
const anything = (value: unknown) => value as OutgoingMessage;

/** The ids, the data and the log lines of outgoing messages. */
export function enqueueTests({ box }: OutboxContext): void {
  describe("enqueue: outbox only", () => {
    it("OBX-004 a message that is no object, or an empty one, is refused, and nothing is stored", async () => {
      const { outbox } = await box();
      for (const nothing of [null, undefined, {}]) {
        const call = async () => outbox.enqueue(anything(nothing));
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect((await outbox.list()).messages).toEqual([]);
    });

    it("ADD-13 data is stored as JSON text; data that JSON cannot represent and data beside a payload are refused", async () => {
      const { outbox } = await box();
      const data = { id: 7, text: "grün 🌱", list: [null, { deep: true }] };
      const id = await outbox.enqueue({ topic: "t", data });
      const message = await stored(outbox, { id });
      expect(message.payload).toBe(JSON.stringify(data));
      expect(message.data).toEqual(data);
      const circular: { self?: unknown } = {};
      circular.self = circular;
      const wrong = [
        { data: undefined },
        { data: () => 1 },
        { data: 1n },
        { data: circular },
        { data, payload: "{}" },
      ];
      for (const one of wrong)
        await expect(async () => outbox.enqueue(anything({ topic: "t", ...one }))).rejects.toBeInstanceOf(
          InvalidArgumentError,
        );
      expect((await outbox.list()).messages).toHaveLength(1);
    });

    it("OBX-014 returns an id of its own for every message, in the order of the messages", async () => {
      const { outbox } = await box();
      const ids = [...(await outbox.enqueue(numbered(200)))];
      for (let n = 0; n < 20; n++) ids.push(await outbox.enqueue({ topic: "t", payload: "single" }));

      expect(new Set(ids).size).toBe(220);
      for (const id of ids) expect(id).toMatch(guid);
      expect((await stored(outbox, { id: ids[0]! })).payload).toBe("000");
      expect((await stored(outbox, { id: ids[199]! })).payload).toBe("199");
    });

    it("OBX-014 gives every message a messageId unless the caller provides one", async () => {
      const { outbox } = await box();
      const messageId = "6F9619FF-8B86-D011-B42D-00C04FC964FF";
      const [first, second] = await outbox.enqueue(numbered(2));
      const own = await outbox.enqueue({ topic: "t", payload: "", messageId });
      const madeUp = [await stored(outbox, { id: first! }), await stored(outbox, { id: second! })];

      expect(madeUp[0]!.messageId).toMatch(guid);
      expect(madeUp[0]!.messageId).not.toBe(madeUp[1]!.messageId);
      expect((await stored(outbox, { id: own })).messageId).toBe(messageId.toLowerCase());
      for (const wrong of ["", "order-7", 7]) {
        const call = async () => outbox.enqueue(anything({ topic: "t", payload: "", messageId: wrong }));
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
    });

    it("OBX-085 logs every enqueued message with its correlation id", async () => {
      const { outbox, log } = await box();
      const id = await outbox.enqueue({ topic: "a", payload: "x", correlationId: "c-1" });
      const ids = await outbox.enqueue([{ topic: "b", payload: "x", correlationId: "c-2" }, ...numbered(1)]);
      expect(fieldsOf(log, "info", "enqueue")).toMatchObject([
        { topic: "a", correlationId: "c-1", id },
        { topic: "b", correlationId: "c-2", id: ids[0] },
        { topic: "test", correlationId: null, id: ids[1] },
      ]);
    });
  });
}

/** Missing errors and ids in capitals. */
export function settleTests({ box }: OutboxContext): void {
  describe("settle: outbox only", () => {
    it("OBX-044 OBX-045 a message can fail without an error, and onDead gets that as the reason", async () => {
      const reasons: string[] = [];
      const { outbox, owner, held } = await box({ onDead: ({ reason }) => void reasons.push(reason) });
      const [first, second] = await held(2);
      await outbox.fail(owner, [first!]);
      await outbox.fail(owner, [second!], null);
      for (const one of [first!, second!])
        expect(await stored(outbox, one)).toMatchObject({ state: "Failed", lastError: null });
      expect(reasons).toEqual(["Failed without an error.", "Failed without an error."]);
    });

    it("OBX-033 OBX-036 an id in capitals is the same id, and counts once", async () => {
      for (const verb of ["ack", "abandon", "release"] as const) {
        const { outbox, owner, held } = await box();
        const [message] = await held(1);
        const keys = [{ id: message!.id }, { id: message!.id.toUpperCase() }];
        const result = await outbox[verb](owner, keys);
        expect(
          result.changed.map(({ id }) => id.toLowerCase()),
          verb,
        ).toEqual([message!.id]);
        expect(result.lost, verb).toEqual([]);
        const attempts = { ack: 0, abandon: 1, release: 0 }[verb];
        expect((await stored(outbox, message!)).attempt, verb).toBe(attempts);
      }
    });
  });
}

/** Sending messages again, or before their back-off is over. */
export function resendTests({ box, database }: OutboxContext): void {
  describe("sending again", () => {
    it("MSG-21 Done messages are listed page by page, without payloads, and become claimable again under their ids", async () => {
      const { outbox, owner, clock, held } = await box();
      const messages = await held(3);
      clock.advance(1_000);
      await outbox.ack(owner, messages);
      const [waiting] = await outbox.enqueue(numbered(1));
      const first = await outbox.listDone({ limit: 2 });
      const second = await outbox.listDone({ limit: 2, after: first.cursor! });
      expect(second.cursor).toBeNull();
      const listed = [...first.messages, ...second.messages];
      const { topic } = messages[0]!;
      expect(listed).toEqual(messages.map(({ id, seq }) => ({ id, seq, topic, processedAt: clock() })));

      clock.advance(1_000);
      const { changed, lost } = await outbox.resend([listed[0]!, { id: waiting! }], { ttlMs: 5_000 });
      expect(changed.map(({ id }) => id)).toEqual([messages[0]!.id]);
      expect(lost).toEqual([{ id: waiting }]);
      expect(await stored(outbox, messages[0]!)).toMatchObject({
        state: "Ready",
        attempt: 0,
        processedAt: null,
        processedBy: null,
        expiresAt: new Date(clock().getTime() + 5_000),
      });
      const claimed = await outbox.claim({ owner });
      expect(claimed.map(({ id }) => id).sort()).toEqual([messages[0]!.id, waiting].sort());
      const again = claimed.find(({ id }) => id === messages[0]!.id)!;
      expect(again).toMatchObject({ messageId: messages[0]!.messageId, payload: messages[0]!.payload });
      await outbox.ack(owner, claimed);
      expect((await outbox.stats()).counts).toMatchObject({ Done: 4, Ready: 0, InProgress: 0 });
      expect((await outbox.resend([{ id: again.id }])).changed).toHaveLength(1);
      expect((await stored(outbox, again)).expiresAt).toBeNull();
    });

    it("MSG-21 resent messages of a partition keep their order, behind the waiting ones", async () => {
      const { outbox, owner } = await box();
      const keyed = numbered(3).map((message) => ({ ...message, partitionKey: "p" }));
      const ids = await outbox.enqueue(keyed);
      const drain = async () => {
        const order: string[] = [];
        for (;;) {
          const claimed = await outbox.claim({ owner });
          if (claimed.length === 0) return order;
          expect(claimed).toHaveLength(1);
          order.push(claimed[0]!.id);
          await outbox.ack(owner, claimed);
        }
      };
      expect(await drain()).toEqual(ids);
      const later = await outbox.enqueue({ topic: "t", payload: "later", partitionKey: "p" });
      const { changed } = await outbox.resend(ids.map((id) => ({ id })));
      expect(changed).toHaveLength(3);
      expect(await drain()).toEqual([later, ...ids]);
    });

    it("MSG-21 a message that a clean-up deletes meanwhile is not resent, and no state stays behind", async (test) => {
      skipUnless(test, database(), "rowLocks");
      const { outbox, owner, held, names } = await box();
      const [message] = await held(1);
      await outbox.ack(owner, [message!]);
      const cleanUp = await database().begin();
      await cleanUp.run(`delete from ${names.message} where seq = ${message!.seq}`);
      const resending = outbox.resend([message!]);
      await untilBlocked(database(), resending, names.table);
      await cleanUp.commit();
      expect((await resending).changed).toEqual([]);
      expect(await rowCount(database(), names.state)).toBe(0);
    });

    it("MSG-21 what is resent beside a clean-up keeps its message", async (test) => {
      test.skip(
        database().db.dialect.name !== "postgres",
        "on others the rows are locked in one order, or by one writer",
      );
      const { outbox, owner, held, clock, names } = await box();
      const orphans = `${names.state} s where not exists (select 1 from ${names.message} m where m.seq = s.seq)`;
      // the clean-up has to take its snapshot before a resend commits, and its locks after it: about one round of four
      for (let round = 0; round < 32; round++) {
        const messages = await held(1_000);
        await outbox.ack(owner, messages);
        clock.advance(60_000);
        const parts = [0, 25, 50, 75].map((from) => messages.slice(900 + from, 925 + from));
        await Promise.all([
          outbox.purgeDone({ retentionMs: 1, batchSize: 1_000 }),
          ...parts.map((part) => outbox.resend(part)),
        ]);
        expect(await rowCount(database(), orphans)).toBe(0);
        await outbox.ack(owner, await outbox.claim({ owner, batchSize: 1_000 }));
      }
    });

    it("MSG-02 makeDue ends the back-off of messages with one error, batch by batch", async () => {
      const { outbox, owner, held, clock } = await box();
      const messages = await held(5);
      await outbox.abandon(
        owner,
        messages.map((message, index) => ({
          message,
          delayMs: 60_000,
          error: index < 3 ? "the breaker is open" : "The Breaker is open",
          costsAttempt: index < 3 ? false : undefined,
        })),
      );
      expect(await outbox.claim({ owner })).toEqual([]);
      expect(await outbox.makeDue("the breaker")).toEqual({ changed: 0, more: false });
      expect(await outbox.makeDue("the breaker is open", { batchSize: 2 })).toEqual({
        changed: 2,
        more: true,
      });
      expect(await outbox.makeDue("the breaker is open", { batchSize: 2 })).toEqual({
        changed: 1,
        more: false,
      });
      const claimed = await outbox.claim({ owner });
      expect(claimed.map(({ id }) => id).sort()).toEqual(
        messages
          .slice(0, 3)
          .map(({ id }) => id)
          .sort(),
      );
      expect(claimed.map(({ attempt }) => attempt)).toEqual([0, 0, 0]);
      expect(await outbox.makeDue("the breaker is open")).toEqual({ changed: 0, more: false }); // claimed
      clock.advance(60_000);
      await expect(async () => outbox.makeDue("")).rejects.toBeInstanceOf(InvalidArgumentError);
    });
  });
}
