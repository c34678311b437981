import { expect, it, vi } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import { createOutbox, type OutboxOptions, type OutgoingMessage } from "../../outbox/outbox.js";
import type { ContractHarness } from "../harness.js";
import { idsOf, messages, outboxTheme, stored, watched } from "./support.js";

const guid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** For what TypeScript would not let through. */
const anything = (value: unknown) => value as OutgoingMessage;

export function enqueueContract(harness: ContractHarness): void {
  outboxTheme(harness, "enqueue", ({ database, box }) => {
    it("OBX-001 keeps the message after the process that enqueued it has gone", async () => {
      const { outbox, on } = await box();
      const other = database().reopen();
      const id = await on(other).enqueue({ topic: "order.created", payload: "{}" });
      if (other !== database().db) await other.close();

      expect(await stored(outbox, { id })).toMatchObject({ id, topic: "order.created", payload: "{}" });
    });

    it("OBX-002 commits by itself, in one round trip, when no transaction is given", async () => {
      const { on, owner } = await box();
      const db = watched(database().db);
      const id = await on(db).enqueue({ topic: "alone", payload: "1" });

      expect(db.calls).toEqual(["enqueue"]);
      expect(idsOf(await on(database().reopen()).claim({ owner }))).toEqual([id]);
    });

    it("OBX-004 refuses a topic that is missing, empty or not a string, and stores nothing", async () => {
      const { outbox } = await box();
      for (const topic of [null, undefined, "", 7, {}]) {
        const call = async () => outbox.enqueue(anything({ topic, payload: "x" }));
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
        await expect(call).rejects.toThrow(/topic/);
      }
      for (const nothing of [null, undefined]) {
        await expect(async () => outbox.enqueue(anything(nothing))).rejects.toBeInstanceOf(
          InvalidArgumentError,
        );
      }
      expect((await outbox.list()).messages).toEqual([]);
    });

    it("OBX-005 refuses a payload that is missing or not a string, and stores nothing", async () => {
      const { outbox } = await box();
      for (const payload of [null, undefined, 7, {}, Buffer.from("x")]) {
        const call = async () => outbox.enqueue(anything({ topic: "t", payload }));
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
        await expect(call).rejects.toThrow(/payload/);
      }
      expect((await outbox.list()).messages).toEqual([]);
    });

    it("OBX-006 takes an empty payload", async () => {
      const { outbox, owner } = await box();
      await outbox.enqueue({ topic: "t", payload: "" });
      await outbox.enqueue([
        { topic: "t", payload: "" },
        { topic: "t", payload: "" },
      ]);

      expect((await outbox.claim({ owner })).map((message) => message.payload)).toEqual(["", "", ""]);
    });

    it("OBX-007 takes a topic of 255 characters and refuses one of 256", async () => {
      const { outbox } = await box();
      for (const topic of ["t".repeat(255), `${"😀".repeat(127)}t`]) {
        const id = await outbox.enqueue({ topic, payload: "" });
        expect((await stored(outbox, { id })).topic).toBe(topic);
      }
      for (const topic of ["t".repeat(256), "😀".repeat(128)]) {
        await expect(outbox.enqueue({ topic, payload: "" })).rejects.toBeInstanceOf(InvalidArgumentError);
      }
    });

    it("OBX-008 stores an empty correlation id as none", async () => {
      const { outbox } = await box();
      for (const correlationId of ["", null, undefined]) {
        const id = await outbox.enqueue({ topic: "t", payload: "", correlationId });
        expect((await stored(outbox, { id })).correlationId).toBeNull();
      }
      const [id] = await outbox.enqueue([
        { topic: "t", payload: "", correlationId: "" },
        { topic: "t", payload: "" },
      ]);
      expect((await stored(outbox, { id: id! })).correlationId).toBeNull();
    });

    it("OBX-009 takes a correlation id of 255 characters and refuses one of 256", async () => {
      const { outbox } = await box();
      const correlationId = "c".repeat(255);
      const id = await outbox.enqueue({ topic: "t", payload: "", correlationId });
      expect((await stored(outbox, { id })).correlationId).toBe(correlationId);

      const longer = outbox.enqueue({ topic: "t", payload: "", correlationId: `${correlationId}c` });
      await expect(longer).rejects.toThrow(/correlationId/);
      await expect(longer).rejects.toBeInstanceOf(InvalidArgumentError);
    });

    it("OBX-010 tells topics apart by case, accents and width", async () => {
      const { outbox } = await box();
      const topics = ["Order.Created", "order.created", "ORDER.CREATED", "ordér.created", "order．created"];
      const ids = await outbox.enqueue(topics.map((topic) => ({ topic, payload: "" })));
      for (const [index, topic] of topics.entries()) {
        const page = await outbox.list({ topic });
        expect(page.messages.map((message) => [message.id, message.topic])).toEqual([[ids[index], topic]]);
      }
    });

    it("OBX-010 refuses a topic that SQL Server would take for another: one with a space at its end", async () => {
      const { outbox } = await box();
      await expect(outbox.enqueue({ topic: "order ", payload: "" })).rejects.toBeInstanceOf(
        InvalidArgumentError,
      );
    });

    it("OBX-011 stores any text as it is: broken JSON, NUL, emoji, line ends, our own mark", async () => {
      const { outbox, owner } = await box();
      const payloads = [
        "{ not json",
        "null",
        "a\0b\0",
        "\0",
        "😀 — ﷽ — e\u0301 — \u200b",
        " \t\r\n padded \r\n ",
        "\u0001base64:AAAA",
        "'; drop table x; -- \\ \" $1 :now @now ?",
        "\uFEFFwith a mark",
      ];
      await outbox.enqueue(payloads.map((payload) => ({ topic: "batch", payload })));
      for (const payload of payloads) await outbox.enqueue({ topic: "single", payload });

      const claimed = await outbox.claim({ owner, batchSize: 100 });
      const of = (topic: string) =>
        claimed.filter((m) => m.topic === topic).map((message) => message.payload);
      expect(of("batch").sort()).toEqual([...payloads].sort());
      expect(of("single").sort()).toEqual([...payloads].sort());
    });

    it("OBX-011 refuses a payload with a lone surrogate, which no database gives back as it was", async () => {
      const { outbox } = await box();
      await expect(outbox.enqueue({ topic: "t", payload: "\uD800" })).rejects.toBeInstanceOf(
        InvalidArgumentError,
      );
    });

    it("OBX-012 holds a message back until its due time, to the millisecond", async () => {
      const { outbox, owner, clock } = await box();
      const dueAt = new Date(clock().getTime() + 60_000);
      const id = await outbox.enqueue({ topic: "t", payload: "", dueAt });
      const [batched] = await outbox.enqueue([
        { topic: "t", payload: "", dueAt },
        { topic: "t", payload: "", dueAt: new Date(dueAt.getTime() + 1) },
      ]);
      expect((await stored(outbox, { id })).dueAt).toEqual(dueAt);
      expect(await outbox.claim({ owner })).toEqual([]);

      clock.advance(59_999);
      expect(await outbox.claim({ owner })).toEqual([]);
      clock.advance(1);
      expect(idsOf(await outbox.claim({ owner }))).toEqual([id, batched!].sort());
    });

    it("OBX-013 makes a message without due time, or with one in the past, claimable at once", async () => {
      const { outbox, owner, clock } = await box();
      const now = clock().getTime();
      const ids = await outbox.enqueue([
        { topic: "t", payload: "" },
        { topic: "t", payload: "", dueAt: null },
        { topic: "t", payload: "", dueAt: new Date(now) },
        { topic: "t", payload: "", dueAt: new Date(now - 86_400_000) },
        { topic: "t", payload: "", dueAt: new Date(0) },
      ]);
      expect(idsOf(await outbox.claim({ owner }))).toEqual([...ids].sort());
    });

    it("OBX-014 answers an id of its own for every message, in the messages' order", async () => {
      const { outbox } = await box();
      const ids = [...(await outbox.enqueue(messages(200)))];
      for (let n = 0; n < 20; n++) ids.push(await outbox.enqueue({ topic: "t", payload: "single" }));

      expect(new Set(ids).size).toBe(220);
      for (const id of ids) expect(id).toMatch(guid);
      expect((await stored(outbox, { id: ids[0]! })).payload).toBe("000");
      expect((await stored(outbox, { id: ids[199]! })).payload).toBe("199");
    });

    it("OBX-014 gives every message a logical messageId too, unless the caller has one", async () => {
      const { outbox } = await box();
      const messageId = "6F9619FF-8B86-D011-B42D-00C04FC964FF";
      const [first, second] = await outbox.enqueue(messages(2));
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

    it("OBX-015 takes createdAt from the database's clock, not from the function's", async () => {
      const { outbox } = await box({ realTime: true });
      const ids: string[] = [];
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2001, 0, 1) });
      try {
        ids.push(await outbox.enqueue({ topic: "t", payload: "" }), ...(await outbox.enqueue(messages(2))));
      } finally {
        vi.useRealTimers();
      }
      for (const id of ids) {
        const { createdAt } = await stored(outbox, { id });
        expect(Math.abs(createdAt.getTime() - Date.now())).toBeLessThan(60_000);
      }
    });

    it("OBX-012 OBX-018 compares the due time with the database's clock, not with the function's", async () => {
      const { outbox, owner } = await box({ realTime: true });
      const dueAt = new Date(Date.now() + 3_600_000);
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) });
      try {
        await outbox.enqueue({ topic: "t", payload: "", dueAt });
        expect(await outbox.claim({ owner })).toEqual([]);
      } finally {
        vi.useRealTimers();
      }
    });

    it("OBX-016 starts as Ready, with no attempt and not processed", async () => {
      const { outbox, clock, view } = await box();
      const id = await outbox.enqueue({ topic: "t", payload: "" });
      expect(await stored(outbox, { id })).toMatchObject({
        state: "Ready",
        attempt: 0,
        createdAt: clock(),
        processedAt: null,
        processedBy: null,
        owner: null,
        lockedUntil: null,
        lastError: null,
        afterCrash: false,
      });
      const [row] = await view();
      expect([Number(row!.RetryCount), Number(row!.IsProcessed), Number(row!.Status)]).toEqual([0, 0, 0]);
    });

    it("OBX-096 carries a payload of 5 MB, alone and in a batch", async () => {
      const { outbox, owner } = await box();
      const payload = "0123456789abcde😀".repeat(Math.ceil((5 * 1024 * 1024) / 19));
      expect(Buffer.byteLength(payload)).toBeGreaterThan(5 * 1024 * 1024);
      await outbox.enqueue({ topic: "large", payload });
      await outbox.enqueue([
        { topic: "large", payload },
        { topic: "large", payload: `${payload}\0` },
      ]);

      const claimed = await outbox.claim({ owner });
      expect(claimed.map((message) => message.payload.length).sort()).toEqual(
        [payload.length, payload.length, payload.length + 1].sort(),
      );
      expect(claimed.filter((message) => message.payload === payload)).toHaveLength(2);
    });

    it("OBX-001 gives back headers and correlation id as they were given", async () => {
      const { outbox, owner } = await box();
      const headers = { traceparent: "00-ab-cd-01", "x-ünïcode": "😀 \0 \"quoted\" 'single'", empty: "" };
      const message = { topic: "t", payload: "", headers, correlationId: "Case-1 😀" };
      await outbox.enqueue(message);
      await outbox.enqueue([message, message]);
      for (const claimed of await outbox.claim({ owner })) {
        expect(claimed.headers).toEqual(headers);
        expect(claimed.correlationId).toBe("Case-1 😀");
      }
      const bare = await outbox.enqueue({ topic: "t", payload: "" });
      expect((await stored(outbox, { id: bare })).headers).toBeNull();
    });

    it("OBX-001 an empty batch stores nothing and asks the database nothing", async () => {
      const { on } = await box();
      const db = watched(database().db);
      expect(await on(db).enqueue([])).toEqual([]);
      expect(db.calls).toEqual([]);
    });

    it("OBX-080 a batch with one bad message is refused whole, before the database is asked", async () => {
      const { on, outbox } = await box();
      const db = watched(database().db);
      const batch = [...messages(2), anything({ topic: "", payload: "x" })];
      await expect(on(db).enqueue(batch)).rejects.toBeInstanceOf(InvalidArgumentError);
      expect(db.calls).toEqual([]);
      expect((await outbox.list()).messages).toEqual([]);
    });

    it("OBX-004 refuses dates, headers and texts of the wrong kind by their names", async () => {
      const { outbox } = await box();
      const wrong: Record<string, readonly unknown[]> = {
        dueAt: ["2030-01-01", 7, new Date(Number.NaN), new Date(-1), new Date(Date.UTC(9999, 0, 1))],
        expiresAt: ["2030-01-01", new Date(Number.NaN)],
        headers: ["x", ["x"], { count: 7 }],
        correlationId: [7, "a\0b", "\uD800"],
        topic: ["a\0b", "\uD800"],
      };
      for (const [name, values] of Object.entries(wrong)) {
        for (const value of values) {
          const call = async () => outbox.enqueue(anything({ topic: "t", payload: "", [name]: value }));
          await expect(call, `${name} ${String(value)}`).rejects.toBeInstanceOf(InvalidArgumentError);
          await expect(call).rejects.toThrow(name);
        }
      }
      expect((await outbox.list()).messages).toEqual([]);
    });

    it("MID-01 refuses options it does not know, all of them in one error", () => {
      const options = { tabel: "x", retries: 3, table: "ok" } as OutboxOptions;
      const create = () => createOutbox(database().db, options);
      expect(create).toThrow(InvalidArgumentError);
      expect(create).toThrow(/tabel.*retries/);
      expect(() => createOutbox(database().db, { processedBy: "p".repeat(101) })).toThrow(
        InvalidArgumentError,
      );
      expect(() => createOutbox(database().db, { retry: { maxAttempts: 0 } })).toThrow(ArgumentRangeError);
    });
  });
}
