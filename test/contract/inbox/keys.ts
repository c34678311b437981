import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import type { InboxKey } from "../../../src/queue/message.js";
import { loneSurrogates, longNames, tooLongNames } from "../queue/enqueue.js";
import { verbNames, verbs } from "../queue/support.js";
import { rowCount } from "../support/database.js";
import { type InboxContext, keyOf, keyTexts, stored } from "./support.js";

/** Which sources and message ids are accepted, and which are the same. */
export function keyTests(context: InboxContext): void {
  const { database, freshInbox, message } = context;

  describe("keys", () => {
    const refusesTooLong = async (field: "messageId" | "source") => {
      const { inbox, names } = await freshInbox();
      for (const value of tooLongNames) {
        const wrong = message({ [field]: value });
        await expect(inbox.alreadyProcessed(wrong)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.alreadyProcessed(wrong)).rejects.toThrow(`${field} has 256 characters`);
        await expect(inbox.receive(wrong)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.enqueue([wrong])).rejects.toThrow(InvalidArgumentError);
      }
      expect(await rowCount(database(), names.message)).toBe(0);
    };

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
      expect(keyTexts(claimed)).toEqual(keyTexts(keys));
      const named = keys.map(({ source, messageId }) => ({ source, messageId }));
      expect(keyTexts((await inbox.ack(owner, named)).changed)).toEqual(keyTexts(keys));
      for (const key of keys) expect(await inbox.alreadyProcessed(key)).toBe(true);
    });

    it("IBX-011 a message id of 256 characters is refused", () => refusesTooLong("messageId"));

    it("IBX-012 a source of 256 characters is refused", () => refusesTooLong("source"));

    it("IBX-001 the same message id from two sources is two messages, and settling one leaves the other", async () => {
      for (const verb of verbNames) {
        const { inbox, owner } = await freshInbox();
        const left = message({ source: "left", messageId: "same" });
        await inbox.enqueue([left, { ...left, source: "right" }]);
        const claimed = await inbox.claim({ owner });
        const one = claimed.find(({ source }) => source === "left")!;
        const other = claimed.find(({ source }) => source === "right")!;
        const result = await verbs[verb](inbox, owner, [keyOf(one)]);
        expect(keyTexts(result.changed as readonly InboxKey[]), verb).toEqual(keyTexts([one]));
        expect(await stored(inbox, other), verb).toEqual(other);

        const second = await verbs[verb](inbox, owner, [other]);
        expect(keyTexts(second.changed as readonly InboxKey[]), verb).toEqual(keyTexts([other]));
      }
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

    it("IBX-001 keys that only some languages treat as equal are different messages", async () => {
      const { inbox } = await freshInbox();
      // accents, composed and decomposed, ligature, full width, Turkish i, leading and inner spaces
      const ids = ["é", "e", "e\u0301", "ß", "ss", "ﬁ", "fi", "ａ", "a", "ı", "i", "İ", " a", "a  b", "a b"];
      const batch = ids.map((messageId) => message({ messageId }));
      expect(await inbox.enqueue(batch)).toEqual(ids.map(() => "enqueued"));
      for (const one of batch) expect(await stored(inbox, one)).toMatchObject(one);
    });

    it("IBX-001 an id that looks like SQL or a pattern is stored as it is", async () => {
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
      expect(keyTexts(await inbox.claim({ owner }))).toEqual(keyTexts(batch));
    });

    it("IBX-009 IBX-010 IBX-016 IBX-017 a key with a trailing space is refused, so that it cannot equal one without", async () => {
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
      expect(await rowCount(database(), names.message)).toBe(1);
    });

    it("IBX-009 IBX-010 IBX-016 IBX-017 a key with NUL or a lone surrogate is refused", async () => {
      const { inbox, names } = await freshInbox();
      for (const bad of ["a\0b", "\0", ...loneSurrogates]) {
        for (const field of ["source", "messageId"] as const) {
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
  });
}
