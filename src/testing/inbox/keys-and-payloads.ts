import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../errors.js";
import type { IncomingMessage } from "../../inbox/inbox.js";
import { type InboxContext, keysOf, rowCount, stored } from "./support.js";

/** Of 255 UTF-16 code units each, in one, two, three and four bytes of UTF-8 to the character. */
const longNames = ["a".repeat(255), "ß".repeat(255), "漢".repeat(255), `${"🚀".repeat(127)}x`];
const loneSurrogates = ["\uD83D", "a\uDE00b", "\uDE00\uD83D"];

export function keysAndPayloadsTests(context: InboxContext): void {
  const { database, freshInbox, message, messages } = context;

  describe("keys and payloads", () => {
    it("IBX-011 IBX-012 keys of 255 characters in both parts are stored whole and found again", async () => {
      const { inbox, owner } = await freshInbox();
      const keys = longNames.map((name) => message({ source: name, messageId: name }));
      const [first, ...others] = keys;
      expect(await inbox.receive(first!)).toBe("enqueued");
      expect(await inbox.enqueue(others)).toEqual(["enqueued", "enqueued", "enqueued"]);
      const lastDiffers = { ...first!, messageId: `${"a".repeat(254)}b` };
      expect(await inbox.alreadyProcessed(lastDiffers)).toBe(false);
      expect(await inbox.enqueue(keys)).toEqual(keys.map(() => "duplicate"));

      const claimed = await inbox.claim({ owner });
      expect(keysOf(claimed)).toEqual(keysOf(keys));
      const named = keys.map(({ source, messageId }) => ({ source, messageId }));
      expect(keysOf((await inbox.ack(owner, named)).changed)).toEqual(keysOf(keys));
      for (const key of keys) expect(await inbox.alreadyProcessed(key)).toBe(true);
    });

    it("IBX-011 a message id of 256 characters is refused", async () => {
      const { inbox, names } = await freshInbox();
      for (const messageId of ["a".repeat(256), "漢".repeat(256), "🚀".repeat(128)]) {
        const wrong = message({ messageId });
        await expect(inbox.alreadyProcessed(wrong)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.alreadyProcessed(wrong)).rejects.toThrow(/messageId has 256 characters/);
        await expect(inbox.receive(wrong)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.enqueue([wrong])).rejects.toThrow(InvalidArgumentError);
      }
      expect(await rowCount(database(), names.message)).toBe(0);
    });

    it("IBX-012 a source of 256 characters is refused", async () => {
      const { inbox, names } = await freshInbox();
      for (const source of ["a".repeat(256), "漢".repeat(256), "🚀".repeat(128)]) {
        const wrong = message({ source });
        await expect(inbox.alreadyProcessed(wrong)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.alreadyProcessed(wrong)).rejects.toThrow(/source has 256 characters/);
        await expect(inbox.receive(wrong)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.enqueue([wrong])).rejects.toThrow(InvalidArgumentError);
      }
      expect(await rowCount(database(), names.message)).toBe(0);
    });

    it("IBX-001 keys that differ only in case are different messages", async () => {
      const { inbox, owner } = await freshInbox();
      const keys = [
        message({ source: "Stripe", messageId: "evt_a" }),
        message({ source: "stripe", messageId: "evt_a" }),
        message({ source: "stripe", messageId: "evt_A" }),
        message({ source: "STRIPE", messageId: "EVT_A" }),
      ];
      expect(await inbox.enqueue(keys.slice(0, 3))).toEqual(["enqueued", "enqueued", "enqueued"]);
      expect(await inbox.receive(keys[3]!)).toBe("enqueued");
      await inbox.claim({ owner });
      await inbox.ack(owner, [{ source: "stripe", messageId: "evt_a" }]);
      const processed = [];
      for (const key of keys) processed.push(await inbox.alreadyProcessed(key));
      expect(processed).toEqual([false, true, false, false]);
    });

    it("IBX-001 keys that only a language holds for equal are different messages", async () => {
      const { inbox } = await freshInbox();
      // accents, composed and decomposed, ligature, full width, Turkish i, leading and inner spaces
      const ids = ["é", "e", "e\u0301", "ß", "ss", "ﬁ", "fi", "ａ", "a", "ı", "i", "İ", " a", "a  b", "a b"];
      const batch = ids.map((messageId) => message({ messageId }));
      expect(await inbox.enqueue(batch)).toEqual(ids.map(() => "enqueued"));
      for (const one of batch) expect(await stored(inbox, one)).toMatchObject(one);
    });

    it("IBX-001 an id that would be SQL or a pattern is only an id", async () => {
      const { inbox, owner } = await freshInbox();
      const ids = [
        "'; drop table x; --",
        "%",
        "_",
        "a%",
        "[a]",
        '"',
        "\\",
        "\\u0041",
        "$1",
        ":now",
        "@p",
        "a\tb\nc",
      ];
      const batch = ids.map((messageId) => message({ source: messageId, messageId, topic: messageId }));
      expect(await inbox.enqueue(batch)).toEqual(ids.map(() => "enqueued"));
      for (const one of batch) {
        expect(await inbox.receive(one)).toBe("duplicate");
        expect(await stored(inbox, one)).toMatchObject(one);
      }
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf(batch));
    });

    it("IBX-009 IBX-010 IBX-016 IBX-017 a key that ends with a space is refused: it never makes two ids one", async () => {
      const { inbox, names } = await freshInbox();
      await inbox.receive(message({ source: "stripe", messageId: "evt_1" }));
      for (const key of [
        { source: "stripe ", messageId: "evt_1" },
        { source: "stripe", messageId: "evt_1 " },
        { source: "stripe", messageId: " " },
      ]) {
        await expect(inbox.alreadyProcessed(key)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.receive(message(key))).rejects.toThrow(/must not end with a space/);
        await expect(inbox.enqueue([message(), message(key)])).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.get(key)).rejects.toThrow(InvalidArgumentError);
      }
      await expect(inbox.receive(message({ topic: "order " }))).rejects.toThrow(InvalidArgumentError);
      expect(await rowCount(database(), names.message)).toBe(1);
    });

    it("IBX-009 IBX-010 IBX-015 IBX-016 IBX-017 a key or topic with NUL or a lone surrogate is refused", async () => {
      const { inbox, names } = await freshInbox();
      for (const bad of ["a\0b", "\0", ...loneSurrogates]) {
        for (const field of ["source", "messageId", "topic", "correlationId"] as const) {
          const wrong = message({ [field]: bad });
          await expect(inbox.receive(wrong)).rejects.toThrow(InvalidArgumentError);
          await expect(inbox.receive(wrong)).rejects.toThrow(/well-formed/);
        }
        await expect(inbox.alreadyProcessed({ source: "test", messageId: bad })).rejects.toThrow(
          InvalidArgumentError,
        );
      }
      expect(await rowCount(database(), names.message)).toBe(0);
    });

    it("IBX-020 a topic of 255 characters is stored whole, one of 256 is refused", async () => {
      const { inbox } = await freshInbox();
      for (const topic of longNames) {
        const incoming = message({ topic });
        await inbox.receive(incoming);
        expect((await stored(inbox, incoming)).topic).toBe(topic);
      }
      for (const topic of ["a".repeat(256), "🚀".repeat(128)]) {
        await expect(inbox.receive(message({ topic }))).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.enqueue([message({ topic })])).rejects.toThrow(/topic has 256 characters/);
      }
    });

    it("IBX-021 topics that differ only in case are different topics", async () => {
      const { inbox, owner } = await freshInbox();
      const upper = message({ topic: "Order.Created" });
      const lower = message({ topic: "order.created" });
      await inbox.enqueue([upper, lower]);
      const listed = async (topic: string) =>
        (await inbox.list({ topic })).messages.map((one) => one.messageId);
      expect(await listed("Order.Created")).toEqual([upper.messageId]);
      expect(await listed("order.created")).toEqual([lower.messageId]);
      expect(await listed("ORDER.CREATED")).toEqual([]);
      const topics = (await inbox.claim({ owner })).map((one) => one.topic);
      expect(topics).toEqual(["Order.Created", "order.created"]);
    });

    it("IBX-019 an empty payload is a payload, alone and in a batch", async () => {
      const { inbox, owner } = await freshInbox();
      const [single, inBatch] = messages(2, { payload: "" });
      expect(await inbox.receive(single!)).toBe("enqueued");
      expect(await inbox.enqueue([inBatch!])).toEqual(["enqueued"]);
      const claimed = await inbox.claim({ owner });
      expect(claimed.map((one) => one.payload)).toEqual(["", ""]);
    });

    it("IBX-022 a payload of any format comes back exactly", async () => {
      const { inbox, owner } = await freshInbox();
      const payloads = [
        "not json",
        '{"a":',
        "<xml attr='1'/>",
        "123",
        "null",
        "true",
        " \t\r\n leading and trailing \r\n ",
        "nul \0 inside",
        "\0",
        "🚀 emoji 👨‍👩‍👧‍👦 and 漢字 and é and e\u0301",
        "\uFEFFwith a byte order mark",
        "\u0001base64:looks like our own mark",
        "\u0001\u0002\u001F\u007F\u0080\u2028\uFFFE\uFFFF",
        "quotes ' \" ` and \\ and \\u0000 and %s $1 :now @now",
      ];
      const single = payloads.map((payload) => message({ payload }));
      const batched = payloads.map((payload) => message({ payload }));
      for (const one of single) await inbox.receive(one);
      await inbox.enqueue(batched);

      const claimed = await inbox.claim({ owner, batchSize: 100 });
      const byKey = new Map(claimed.map((one) => [one.messageId, one.payload]));
      for (const one of [...single, ...batched]) expect(byKey.get(one.messageId)).toBe(one.payload);
      for (const one of single) expect((await stored(inbox, one)).payload).toBe(one.payload);
    });

    it("IBX-022 headers of any content come back exactly", async () => {
      const { inbox, owner } = await freshInbox();
      const headers = {
        "content-type": "application/json",
        "": "an empty name",
        empty: "",
        emoji: "🚀 漢字",
        "ключ 🚀": "name",
        nul: "a\0b",
        "nul\0name": "\0",
        quotes: "' \" \\ \n \\u0000",
        mark: "\u0001base64:x",
      };
      const batch: IncomingMessage[] = [
        message({ headers }),
        message({ headers: {} }),
        message({ headers: null }),
      ];
      await inbox.receive(batch[0]!);
      await inbox.enqueue(batch.slice(1));
      await inbox.enqueue([batch[0]!]);
      const claimed = await inbox.claim({ owner });
      expect(claimed.map((one) => one.headers)).toEqual([headers, {}, null]);
    });

    it("IBX-022 headers that are not strings are refused", async () => {
      const { inbox } = await freshInbox();
      for (const headers of [{ a: 1 }, { a: null }, ["a"], "a", 5]) {
        await expect(inbox.receive(message({ headers: headers as never }))).rejects.toThrow(
          InvalidArgumentError,
        );
      }
    });

    it("IBX-022 a payload with a lone surrogate is refused rather than changed", async () => {
      const { inbox, names } = await freshInbox();
      for (const payload of loneSurrogates) {
        await expect(inbox.receive(message({ payload }))).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.enqueue([message(), message({ payload })])).rejects.toThrow(/lone surrogate/);
      }
      expect(await rowCount(database(), names.message)).toBe(0);
    });

    it("IBX-118 payloads of 5 MB come back exactly, alone and in a batch", async () => {
      const { inbox, owner } = await freshInbox();
      const large = "0123456789abcdé\n".repeat(5 * 65_536);
      const [single, inBatch] = [message({ payload: large }), message({ payload: `${large}!` })];
      expect(await inbox.receive(single)).toBe("enqueued");
      expect(await inbox.enqueue([inBatch, message()])).toEqual(["enqueued", "enqueued"]);
      const claimed = await inbox.claim({ owner });
      expect(large.length).toBe(5 * 1024 * 1024);
      // not toBe: a difference would print ten megabytes
      expect(claimed[0]!.payload === single.payload).toBe(true);
      expect(claimed[1]!.payload === inBatch.payload).toBe(true);
      expect(claimed).toHaveLength(3);
    });
  });
}
