import { describe, expect, it } from "vitest";
import { type InboxContext, stored } from "./support.js";

const first = "sha256:11";
const other = "sha256:22";

export function keptContentTests(context: InboxContext): void {
  const { freshInbox, message } = context;

  describe("keepContent", () => {
    it("IBX-029 a waiting message keeps its first content, topic, headers and times, singly and in a batch", async () => {
      const { inbox, clock } = await freshInbox();
      const dueAt = new Date(clock().getTime() + 5_000);
      const incoming = { ...message(), payload: "first", hash: first, headers: { a: "1" }, dueAt };
      const copy = {
        ...incoming,
        payload: "other",
        topic: "other",
        hash: other,
        headers: { a: "2" },
        dueAt: clock(),
      };
      expect(await inbox.receive(incoming, { keepContent: true })).toBe("enqueued");
      expect(await inbox.receive(incoming, { keepContent: true })).toBe("duplicate");
      expect(await inbox.receive(copy, { keepContent: true })).toBe("conflict");
      expect(await inbox.enqueue([copy, message()], { keepContent: true })).toEqual(["conflict", "enqueued"]);
      expect(await stored(inbox, incoming)).toMatchObject({
        payload: "first",
        topic: incoming.topic,
        hash: first,
        headers: { a: "1" },
        dueAt,
      });
      expect(await inbox.receive(copy)).toBe("conflict"); // without it the newest counts
      expect(await stored(inbox, incoming)).toMatchObject({ payload: "other", hash: other });
    });

    it("IBX-029 so does a dead one, which stays dead, and a reason to die counts for a new message only", async () => {
      const { inbox } = await freshInbox({ deadOnRedelivery: "revive" });
      const dead = { ...message(), payload: "first", hash: first };
      await inbox.receive(dead);
      await inbox.markDead(dead, "broken");
      const copy = { ...dead, payload: "other", hash: other };
      expect(await inbox.receive(copy, { keepContent: true })).toBe("conflict");
      expect(await inbox.enqueue([copy], { keepContent: true })).toEqual(["conflict"]);
      expect(await stored(inbox, dead)).toMatchObject({ payload: "first", state: "Dead", hash: first });
      const waiting = { ...message(), payload: "first", hash: first };
      await inbox.receive(waiting);
      const killing = { ...waiting, payload: "other", hash: other, dead: "no object" };
      expect(await inbox.enqueue([killing], { keepContent: true })).toEqual(["conflict"]);
      expect(await stored(inbox, waiting)).toMatchObject({ payload: "first", state: "Processing" });
      const born = { ...message(), dead: "no object" };
      expect(await inbox.enqueue([born], { keepContent: true })).toEqual(["dead"]);
      expect(await stored(inbox, born)).toMatchObject({ state: "Dead" });
    });

    it("IBX-029 a message that was only seen takes the content", async () => {
      const { inbox } = await freshInbox();
      const seen = { ...message(), payload: "first", hash: first };
      await inbox.alreadyProcessed(seen);
      expect(await inbox.receive(seen, { keepContent: true })).toBe("enqueued");
      expect(await stored(inbox, seen)).toMatchObject({ payload: "first", topic: seen.topic });
    });

    it("IBX-029 a message with a partition key keeps content and key", async () => {
      const { inbox } = await freshInbox();
      const keyed = { ...message(), payload: "first", hash: first, partitionKey: "one" };
      expect(await inbox.receive(keyed, { keepContent: true })).toBe("enqueued");
      const copy = { ...keyed, payload: "other", hash: other, partitionKey: "two" };
      expect(await inbox.receive(copy, { keepContent: true })).toBe("conflict");
      expect(await stored(inbox, keyed)).toMatchObject({ payload: "first", partitionKey: "one" });
    });
  });
}
