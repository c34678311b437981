import { afterEach, describe, expect, it, vi } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { watched } from "../support/watched.js";
import { messages, type NewMessage, type QueueContext } from "./support.js";

/** Of 255 UTF-16 code units each, in one, two, three and four bytes of UTF-8 to the character. */
export const longNames = ["a".repeat(255), "ß".repeat(255), "漢".repeat(255), `${"🚀".repeat(127)}x`];
export const tooLongNames = ["a".repeat(256), "漢".repeat(256), "🚀".repeat(128)];
export const loneSurrogates = ["\uD800", "\uD83D", "a\uDE00b", "\uDE00\uD83D"];

/** Which messages are accepted, and how they are stored. */
export function enqueueTests({ database, queue, ids, addedAt, states }: QueueContext): void {
  /** The values are refused by the field's name, singly and in a batch, and nothing is stored. */
  const refuses = async (field: keyof NewMessage, values: readonly unknown[], why?: RegExp) => {
    const { store } = await queue();
    for (const value of values) {
      const wrong = { topic: "t", payload: "", [field]: value } as NewMessage;
      for (const call of [async () => store.addOne(wrong), async () => store.add([...messages(2), wrong])]) {
        await expect(call, `${field} ${String(value).slice(0, 20)}`).rejects.toBeInstanceOf(
          InvalidArgumentError,
        );
        await expect(call).rejects.toThrow(new RegExp(`^${field}\\b`));
        if (why !== undefined) await expect(call).rejects.toThrow(why);
      }
    }
    expect((await store.list()).messages).toEqual([]);
  };

  describe("enqueue", () => {
    afterEach(() => {
      vi.useRealTimers();
    });

    it("IBX-013 OBX-001 a message stays stored after the process that enqueued it is gone", async () => {
      const { on, stored } = await queue();
      const other = database().reopen();
      const key = await on(other).addOne({ topic: "order.created", payload: "{}" });
      const batch = await on(other).add(messages(2));
      if (other !== database().db) await other.close();
      expect(await stored(key)).toMatchObject({ ...key, topic: "order.created", payload: "{}" });
      expect(await stored(batch[1]!)).toMatchObject({ ...batch[1]!, topic: "test", payload: "001" });
    });

    it("IBX-102 OBX-002 an enqueue commits by itself, in one round trip, when no transaction is given", async () => {
      const { on, owner } = await queue();
      const db = watched(database().db);
      const key = await on(db).addOne({ topic: "single", payload: "1" });
      expect(db.calls).toHaveLength(1);
      const batch = await on(db).add(messages(3));
      expect(db.calls).toHaveLength(2);
      expect(db.calls).not.toContain("transaction");
      expect(ids(await on(database().reopen()).claim({ owner }))).toEqual(ids([key, ...batch]));
    });

    it("IBX-015 OBX-004 a topic that is missing, empty or not a string is refused", () =>
      refuses("topic", [null, undefined, "", 7, {}]));

    it("IBX-018 OBX-005 a payload that is missing or not a string is refused", () =>
      refuses("payload", [null, undefined, 7, {}, Buffer.from("x")]));

    it("IBX-019 OBX-006 an empty payload is valid, singly and in a batch", async () => {
      const { store, owner } = await queue();
      await store.addOne({ topic: "t", payload: "" });
      await store.add(messages(2, { payload: "" }));
      expect((await store.claim({ owner })).map((message) => message.payload)).toEqual(["", "", ""]);
    });

    it("IBX-020 OBX-007 a topic of 255 characters is stored whole", async () => {
      const { store, stored } = await queue();
      for (const topic of longNames) {
        const key = await store.addOne({ topic, payload: "" });
        expect((await stored(key)).topic).toBe(topic);
      }
    });

    it("IBX-020 OBX-007 a topic of 256 characters is refused", () =>
      refuses("topic", tooLongNames, /topic has 256 characters/));

    it("IBX-021 OBX-010 topics that differ in case, accent or width are different topics", async () => {
      const { store, owner } = await queue();
      const topics = ["Order.Created", "order.created", "ORDER.CREATED", "ordér.created", "order．created"];
      const keys = await store.add(topics.map((topic) => ({ topic, payload: "" })));
      for (const [index, topic] of topics.entries()) {
        const { messages: found } = await store.list({ topic });
        expect(ids(found)).toEqual(ids([keys[index]!]));
        expect(found.map((message) => message.topic)).toEqual([topic]);
      }
      expect((await store.list({ topic: "ORDER.created" })).messages).toEqual([]);
      expect((await store.claim({ owner })).map((message) => message.topic)).toEqual(topics);
    });

    it("IBX-021 OBX-010 a topic with a trailing space is refused: SQL Server ignores it in comparisons", () =>
      refuses("topic", ["order "], /must not end with a space/));

    it("IBX-015 OBX-004 a topic or correlation id with NUL or a lone surrogate is refused", async () => {
      await refuses("topic", ["a\0b", "\0", ...loneSurrogates], /well-formed/);
      await refuses("correlationId", ["a\0b", "\0", ...loneSurrogates], /well-formed/);
    });

    it("OBX-008 an empty correlation id is stored as none", async () => {
      const { store, stored } = await queue();
      for (const correlationId of ["", null, undefined]) {
        const key = await store.addOne({ topic: "t", payload: "", correlationId });
        expect((await stored(key)).correlationId).toBeNull();
      }
      const [empty, missing] = await store.add([
        { topic: "t", payload: "", correlationId: "" },
        { topic: "t", payload: "" },
      ]);
      expect((await stored(empty!)).correlationId).toBeNull();
      expect((await stored(missing!)).correlationId).toBeNull();
    });

    it("OBX-009 a correlation id of 255 characters is stored, one of 256 is refused", async () => {
      const { store, stored } = await queue();
      const correlationId = "c".repeat(255);
      const key = await store.addOne({ topic: "t", payload: "", correlationId });
      expect((await stored(key)).correlationId).toBe(correlationId);
      await refuses("correlationId", [`${correlationId}c`, 7]);
    });

    it("IBX-022 OBX-011 a payload of any format is returned exactly, singly and in a batch", async () => {
      const { store, owner, stored } = await queue();
      const payloads = [
        "not json",
        '{"a":',
        "<xml attr='1'/>",
        "123",
        "null",
        "true",
        " \t\r\n leading and trailing \r\n ",
        "nul \0 inside",
        "a\0b\0",
        "\0",
        "🚀 emoji 👨‍👩‍👧‍👦 and 漢字 and é and e\u0301 and ﷽ and \u200b",
        "\uFEFFwith a byte order mark",
        "\u0001base64:looks like our own mark",
        "\u0001base64:AAAA",
        "\u0001\u0002\u001F\u007F\u0080\u2028\uFFFE\uFFFF",
        "quotes ' \" ` and \\ and \\u0000 and %s $1 :now @now ?",
        "'; drop table x; --",
      ];
      const single: object[] = [];
      for (const payload of payloads) single.push(await store.addOne({ topic: "single", payload }));
      await store.add(payloads.map((payload) => ({ topic: "batch", payload })));

      const claimed = await store.claim({ owner, batchSize: 100 });
      for (const topic of ["single", "batch"]) {
        const found = claimed.filter((message) => message.topic === topic);
        expect(found.map((message) => message.payload)).toEqual(payloads);
      }
      for (const [index, key] of single.entries()) expect((await stored(key)).payload).toBe(payloads[index]);
    });

    it("IBX-022 OBX-011 a payload with a lone surrogate is refused rather than changed", () =>
      refuses("payload", loneSurrogates, /lone surrogate/));

    it("headers of any content are returned exactly, singly and in a batch", async () => {
      const { store, owner } = await queue();
      const headers = {
        "content-type": "application/json",
        traceparent: "00-ab-cd-01",
        "": "an empty name",
        empty: "",
        emoji: "🚀 漢字",
        "ключ 🚀": "name",
        nul: "a\0b",
        "nul\0name": "\0",
        quotes: "' \" \\ \n \\u0000",
        mark: "\u0001base64:x",
      };
      const message = { topic: "t", payload: "", correlationId: "Case-1 😀" };
      await store.addOne({ ...message, headers });
      await store.add([{ ...message, headers: {} }, { ...message, headers: null }, message]);
      await store.add([{ ...message, headers }]);
      const claimed = await store.claim({ owner });
      expect(claimed.map((one) => one.headers)).toEqual([headers, {}, null, null, headers]);
      for (const one of claimed) expect(one.correlationId).toBe("Case-1 😀");
    });

    it("headers that are not strings are refused", () =>
      refuses("headers", [{ a: 1 }, { a: null }, { count: 7 }, ["a"], "a", 5]));

    it("IBX-024 OBX-013 ADD-03 a due time or an expiry that is no valid date is refused", async () => {
      const wrong = ["2030-01-01", 5, new Date(Number.NaN)];
      const outOfRange = [new Date(-1), new Date(8.64e15), new Date(Date.UTC(9999, 0, 1))];
      await refuses("dueAt", [...wrong, ...outOfRange]);
      await refuses("expiresAt", wrong);
    });

    it("IBX-025 OBX-015 the time of enqueueing is the database's, not the process's", async () => {
      const { store, stored } = await queue({ realTime: true });
      const realMs = Date.now();
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2001, 0, 1) });
      const keys = [await store.addOne({ topic: "t", payload: "" }), ...(await store.add(messages(2)))];
      for (const key of keys) {
        const differsMs = Math.abs(addedAt(await stored(key)).getTime() - realMs);
        expect(differsMs).toBeLessThan(60_000);
      }
    });

    it("IBX-027 OBX-016 a new message waits with attempt 0, not leased and not processed", async () => {
      const { store, clock, stored } = await queue();
      const keys = [await store.addOne({ topic: "t", payload: "" }), ...(await store.add(messages(1)))];
      for (const key of keys) {
        const message = await stored(key);
        expect(message).toMatchObject({
          state: states.waiting,
          attempt: 0,
          owner: null,
          lockedUntil: null,
          lastError: null,
          processedAt: null,
          processedBy: null,
          crashes: 0,
        });
        expect(addedAt(message)).toEqual(clock());
      }
    });

    it("IBX-118 OBX-096 payloads of 5 MB are returned exactly, singly and in a batch", async () => {
      const { store, owner } = await queue();
      const large = "0123456789abcdé😀\n".repeat(5 * 65_536);
      expect(Buffer.byteLength(large)).toBeGreaterThan(5 * 1024 * 1024);
      const payloads = [large, `${large}!`, `${large}\0`];
      await store.addOne({ topic: "large", payload: payloads[0]! });
      await store.add(payloads.slice(1).map((payload) => ({ topic: "large", payload })));
      const claimed = await store.claim({ owner });
      expect(claimed).toHaveLength(3);
      // not toEqual: a difference would print ten megabytes
      expect(claimed.every((message, index) => message.payload === payloads[index])).toBe(true);
    });

    it("IBX-014 OBX-001 an empty batch stores nothing, logs nothing and costs no round trip", async () => {
      const { on, store, log } = await queue();
      const db = watched(database().db);
      expect(await on(db).add([])).toEqual([]);
      expect(db.calls).toEqual([]);
      expect(log).toEqual([]);
      expect((await store.list()).messages).toEqual([]);
    });

    it("IBX-102 OBX-080 a batch with one bad message is refused whole, before the database is called", async () => {
      const { on, store } = await queue();
      const db = watched(database().db);
      const batch = [...messages(2), ...messages(1, { topic: "" })];
      await expect(on(db).add(batch)).rejects.toBeInstanceOf(InvalidArgumentError);
      expect(db.calls).toEqual([]);
      expect((await store.list()).messages).toEqual([]);
    });
  });
}
