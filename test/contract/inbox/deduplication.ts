import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { skipUnless } from "../harness.js";
import { inTransaction, rowCount, untilBlocked } from "../support/database.js";
import type { LogLine } from "../support/recording-logger.js";
import { held, type InboxContext, stored } from "./support.js";

const hashOf = (content: string) => createHash("sha256").update(content).digest();
const textHashOf = (algorithm: string, content: string) =>
  `${algorithm}:${createHash(algorithm).update(content).digest("hex")}`;
const mismatches = (logs: readonly LogLine[]) =>
  logs.filter((line) => line.level === "warn" && line.message === "the same id arrived with other content");

export function deduplicationTests(context: InboxContext): void {
  const { freshInbox, message } = context;

  describe("deduplication", () => {
    it("IBX-001 source and id are compared separately, not joined", async () => {
      const { inbox } = await freshInbox();
      expect(await inbox.receive(message({ source: "ab", messageId: "c" }))).toBe("enqueued");
      expect(await inbox.receive(message({ source: "a", messageId: "bc" }))).toBe("enqueued");
      const swapped = [message({ source: "x", messageId: "y" }), message({ source: "y", messageId: "x" })];
      expect(await inbox.enqueue(swapped)).toEqual(["enqueued", "enqueued"]);
    });

    it("IBX-002 IBX-003 a message that was acknowledged is processed", async () => {
      const { inbox, owner } = await freshInbox();
      const claimed = await held(inbox, owner, message());
      expect(await inbox.alreadyProcessed(claimed)).toBe(false);
      await inbox.ack(owner, [claimed]);
      expect(await inbox.alreadyProcessed(claimed)).toBe(true);
      expect((await stored(inbox, claimed)).state).toBe("Done");
    });

    it("IBX-003 a message marked as processed by hand is processed", async () => {
      const { inbox } = await freshInbox();
      const key = message();
      expect(await inbox.alreadyProcessed(key)).toBe(false);
      await inbox.markProcessed(key);
      expect(await inbox.alreadyProcessed(key)).toBe(true);
      expect(await inbox.alreadyProcessed(key)).toBe(true);
    });

    it("IBX-004 a message never seen before is recorded as Seen", async () => {
      const { inbox, clock, names } = await freshInbox();
      const key = message();
      expect(await inbox.get(key)).toBeNull();
      expect(await inbox.alreadyProcessed(key)).toBe(false);
      expect(await stored(inbox, key)).toMatchObject({
        source: key.source,
        messageId: key.messageId,
        state: "Seen",
        attempt: 0,
        deliveries: 1,
        firstSeenAt: clock(),
        lastSeenAt: clock(),
        hash: null,
      });
      expect(await rowCount(context.database(), names.message)).toBe(1);
    });

    it("IBX-005 a check changes only the last-seen time and the deliveries of a message that is not done", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const firstSeenAt = clock();
      const seen = message();
      const processing = message();
      const dead = message();
      await inbox.alreadyProcessed(seen);
      await inbox.receive(processing);
      await inbox.receive(dead);
      const claimed = await inbox.claim({ owner });
      await inbox.fail(owner, [dead], "broken");
      const before = await Promise.all([seen, processing, dead].map((key) => stored(inbox, key)));
      clock.advance(5_000);

      for (const [index, key] of [seen, processing, dead].entries()) {
        expect(await inbox.alreadyProcessed(key)).toBe(false);
        expect(await stored(inbox, key)).toEqual({
          ...before[index],
          firstSeenAt,
          lastSeenAt: clock(),
          deliveries: 2,
        });
      }
      expect(claimed).toHaveLength(2);
      expect(before.map((one) => one.state)).toEqual(["Seen", "Processing", "Dead"]);
    });

    it("IBX-005 a check changes neither the due time nor the back-off of a message", async () => {
      const { inbox, clock, owner } = await freshInbox();
      const delayed = message({ dueAt: new Date(clock().getTime() + 60_000) });
      const failed = message();
      await inbox.receive(delayed);
      await held(inbox, owner, failed);
      await inbox.abandon(owner, [failed], { delayMs: 30_000 });
      await inbox.alreadyProcessed(delayed);
      await inbox.alreadyProcessed(failed);

      clock.advance(29_999);
      expect(await inbox.claim({ owner })).toEqual([]);
      clock.advance(1);
      expect((await inbox.claim({ owner })).map((one) => one.messageId)).toEqual([failed.messageId]);
      clock.advance(29_999);
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(1);
      const last = await inbox.claim({ owner: newOwnerToken() });
      expect(last.map((one) => one.messageId)).toContain(delayed.messageId);
    });

    it("IBX-006 fifty concurrent checks of one new key all return false and leave one row", async () => {
      const { inbox, on, names } = await freshInbox();
      const key = message();
      const inboxes = [inbox, ...Array.from({ length: 3 }, () => on(context.database().reopen()))];
      const results = await Promise.all(
        Array.from({ length: 50 }, (_, n) => inboxes[n % inboxes.length]!.alreadyProcessed(key)),
      );
      expect(results).toEqual(new Array(50).fill(false));
      expect(await rowCount(context.database(), names.message)).toBe(1);
      expect(await rowCount(context.database(), names.state)).toBe(1);
      expect((await stored(inbox, key)).deliveries).toBe(50);
    });

    it("IBX-006 IBX-014 a message that arrives while its key is checked is enqueued", async () => {
      const { inbox, on } = await freshInbox();
      const other = on(context.database().reopen());
      const raced = context.messages(200);
      const outcomes = await Promise.all(
        raced.map(async (one) => {
          const [, outcome] = await Promise.all([other.alreadyProcessed(one), inbox.receive(one)]);
          return outcome;
        }),
      );
      expect(new Set(outcomes)).toEqual(new Set(["enqueued"]));
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 200, Done: 0, Dead: 0 });
      expect((await inbox.stats()).due).toBe(200);
    });

    it("IBX-006 IBX-014 a message that waited for the check of its key to commit is enqueued", async (test) => {
      skipUnless(test, context.database(), "visibleLockWaits");
      const { inbox, on, owner, table } = await freshInbox();
      const [single, inBatch] = context.messages(2);
      for (const [key, arrive] of [
        [single!, () => inbox.receive(single!)],
        [inBatch!, async () => (await inbox.enqueue([inBatch!]))[0]],
      ] as const) {
        const transaction = await context.database().begin();
        await on(inTransaction(context.database().db, transaction.tx)).alreadyProcessed(key);
        const arriving = arrive();
        await untilBlocked(context.database(), arriving, table);
        await transaction.commit();
        expect(await arriving).toBe("enqueued");
        expect(await stored(inbox, key)).toMatchObject({ ...key, state: "Processing", deliveries: 2 });
      }
      expect(await inbox.claim({ owner })).toHaveLength(2);
    });

    it("IBX-006 IBX-014 two callers that insert the same new key both commit, whoever is first", async (test) => {
      skipUnless(test, context.database(), "concurrentWriters");
      const { inbox, on } = await freshInbox();
      const [received, marked, checked, after] = context.messages(4);
      const first = await context.database().begin();
      const second = await context.database().begin();
      await inbox.receive(received!, { tx: first.tx });
      await inbox.markProcessed(marked!, { tx: first.tx });
      await on(inTransaction(context.database().db, first.tx)).alreadyProcessed(checked!);
      // Each waits for the first transaction. Its insert then finds the key taken.
      const late = (async () => [
        await inbox.receive(received!, { tx: second.tx }),
        await inbox.markProcessed(marked!, { tx: second.tx }),
        await on(inTransaction(context.database().db, second.tx)).alreadyProcessed(checked!),
        await inbox.receive(after!, { tx: second.tx }),
      ])();
      await first.commit();
      expect(await late).toEqual(["duplicate", false, false, "enqueued"]);
      await second.commit();
      expect((await stored(inbox, received!)).deliveries).toBe(2);
      expect((await inbox.stats()).counts).toEqual({ Seen: 1, Processing: 2, Done: 1, Dead: 0 });
    }, 300_000);

    it("IBX-007 a check stores its hash, keeps a stored one when it has none, and adds one that is missing", async () => {
      const { inbox, logs } = await freshInbox();
      const known = message();
      const unknown = message();
      for (const hash of [hashOf("one"), hashOf("one"), undefined]) await inbox.alreadyProcessed(known, hash);
      await inbox.alreadyProcessed(unknown);
      await inbox.alreadyProcessed(unknown, hashOf("two"));
      expect(Buffer.from((await stored(inbox, known)).hash!)).toEqual(hashOf("one"));
      expect(Buffer.from((await stored(inbox, unknown)).hash!)).toEqual(hashOf("two"));
      expect(mismatches(logs)).toEqual([]);
    });

    it("IBX-008 a check with another hash logs one warning and succeeds", async () => {
      const { inbox, logs } = await freshInbox();
      const key = message();
      await inbox.alreadyProcessed(key, hashOf("one"));
      expect(await inbox.alreadyProcessed(key, hashOf("two"))).toBe(false);
      expect(mismatches(logs)).toEqual([
        expect.objectContaining({
          fields: expect.objectContaining({ source: key.source, messageId: key.messageId }),
        }),
      ]);
      expect(await inbox.alreadyProcessed(key, hashOf("two"))).toBe(false);
      expect(mismatches(logs)).toHaveLength(1);
    });

    it("IBX-008 a done message that is checked with another hash stays done, with its own hash", async () => {
      const { inbox, logs } = await freshInbox();
      const key = message();
      await inbox.alreadyProcessed(key, hashOf("one"));
      await inbox.markProcessed(key);
      expect(await inbox.alreadyProcessed(key, hashOf("two"))).toBe(true);
      expect(mismatches(logs)).toHaveLength(1);
      expect(Buffer.from((await stored(inbox, key)).hash!)).toEqual(hashOf("one"));
      expect((await stored(inbox, key)).state).toBe("Done");
    });

    it("IBX-008 IBX-029 a message that arrives with another hash is a conflict with a warning, and its newer content is kept", async () => {
      const { inbox, logs, owner } = await freshInbox();
      const first = message({ payload: "one", hash: hashOf("one") });
      const second = { ...first, payload: "two", hash: hashOf("two") };
      expect(await inbox.receive(first)).toBe("enqueued");
      expect(await inbox.receive(second)).toBe("conflict");
      expect(mismatches(logs)).toHaveLength(1);
      expect(JSON.stringify(mismatches(logs))).not.toContain("two");
      expect(await inbox.receive(second)).toBe("duplicate");

      const [claimed] = await inbox.claim({ owner });
      expect(claimed!.payload).toBe("two");
      expect(Buffer.from(claimed!.hash!)).toEqual(hashOf("two"));
    });

    it("IBX-008 IBX-028 a done message that arrives with another hash is a conflict and keeps the handled content", async () => {
      const { inbox, logs, owner } = await freshInbox();
      const first = message({ payload: "one", hash: hashOf("one") });
      await inbox.ack(owner, [await held(inbox, owner, first)]);
      const second = { ...first, payload: "two", hash: hashOf("two") };
      expect(await inbox.receive(second)).toBe("conflict");
      expect(await inbox.enqueue([second])).toEqual(["conflict"]);
      expect(mismatches(logs)).toHaveLength(2);
      const now = await stored(inbox, first);
      expect(now).toMatchObject({ state: "Done", payload: "one" });
      expect(Buffer.from(now.hash!)).toEqual(hashOf("one"));
    });

    it("IBX-008 other content without hashes is no conflict, because there is nothing to compare", async () => {
      const { inbox, logs } = await freshInbox();
      const first = message({ payload: "one" });
      await inbox.receive(first);
      expect(await inbox.receive({ ...first, payload: "two" })).toBe("duplicate");
      expect(await inbox.receive({ ...first, hash: hashOf("two") })).toBe("duplicate");
      expect(mismatches(logs)).toEqual([]);
    });

    it("IBX-008 a delivery without a hash keeps the known one, so that the next mismatch is still noticed", async () => {
      const { inbox } = await context.freshInbox();
      const message = context.message({ hash: new Uint8Array([1]) });
      expect(await inbox.receive(message)).toBe("enqueued");
      expect(await inbox.receive({ ...message, hash: null })).toBe("duplicate");
      expect(await inbox.receive({ ...message, hash: new Uint8Array([2]) })).toBe("conflict");
    });

    it("IBX-009 a check without a message id is refused", async () => {
      const { inbox, names } = await freshInbox();
      for (const messageId of [null, undefined, "", 7]) {
        const key = { source: "test", messageId: messageId as string };
        await expect(inbox.alreadyProcessed(key)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.alreadyProcessed(key)).rejects.toThrow(/messageId/);
      }
      expect(await rowCount(context.database(), names.message)).toBe(0);
    });

    it("IBX-010 a check without a source is refused", async () => {
      const { inbox, names } = await freshInbox();
      for (const source of [null, undefined, "", 7]) {
        const key = { source: source as string, messageId: "1" };
        await expect(inbox.alreadyProcessed(key)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.alreadyProcessed(key)).rejects.toThrow(/source/);
      }
      await expect(inbox.alreadyProcessed(null as never)).rejects.toThrow(InvalidArgumentError);
      expect(await rowCount(context.database(), names.message)).toBe(0);
    });

    it("IBX-007 a hash that is neither bytes nor an algorithm with hexadecimal digits is refused", async () => {
      const { inbox, names } = await freshInbox();
      for (const hash of ["abc", "", "ab12", "sha256:", "sha256:abc", "sha256:xy", ":ab", "sha 256:ab", 7]) {
        await expect(inbox.alreadyProcessed(message(), hash as string)).rejects.toThrow(InvalidArgumentError);
        await expect(inbox.receive(message({ hash: hash as string }))).rejects.toThrow(/hash must be/);
      }
      expect(await rowCount(context.database(), names.message)).toBe(0);
    });

    it("IBX-129 a hash that says its algorithm is returned with it, in lower case", async () => {
      const { inbox, owner } = await freshInbox();
      const hash = textHashOf("sha512", "content");
      const [checked, received, enqueued] = context.messages(3);
      await inbox.alreadyProcessed(checked!, hash);
      await inbox.receive({ ...received!, hash: hash.toUpperCase() });
      await inbox.enqueue([{ ...enqueued!, hash }]);
      for (const key of [checked!, received!, enqueued!]) expect((await stored(inbox, key)).hash).toBe(hash);
      for (const claimed of await inbox.claim({ owner })) expect(claimed.hash).toBe(hash);
    });

    it("IBX-008 IBX-129 hashes of two algorithms are no conflict; another hash of the same algorithm is one", async () => {
      const { inbox, logs } = await freshInbox();
      const hashes = [textHashOf("sha256", "one"), textHashOf("md5", "one"), hashOf("one")];
      for (const [before, after] of hashes.flatMap((one) => hashes.map((other) => [one, other] as const))) {
        const [received, batched, checked] = context.messages(3);
        await inbox.receive({ ...received!, hash: before });
        expect(await inbox.receive({ ...received!, hash: after })).toBe("duplicate");
        await inbox.enqueue([{ ...batched!, hash: before }]);
        expect(await inbox.enqueue([{ ...batched!, hash: after }])).toEqual(["duplicate"]);
        await inbox.alreadyProcessed(checked!, before);
        expect(await inbox.alreadyProcessed(checked!, after)).toBe(false);
      }
      expect(mismatches(logs)).toEqual([]);

      for (const [before, after] of [
        [textHashOf("sha256", "one"), textHashOf("sha256", "two")],
        [textHashOf("md5", "one"), textHashOf("md5", "two")],
      ] as const) {
        const [received, batched, checked] = context.messages(3);
        await inbox.receive({ ...received!, hash: before });
        expect(await inbox.receive({ ...received!, hash: after })).toBe("conflict");
        await inbox.enqueue([{ ...batched!, hash: before }]);
        expect(await inbox.enqueue([{ ...batched!, hash: after }])).toEqual(["conflict"]);
        await inbox.alreadyProcessed(checked!, before);
        await inbox.alreadyProcessed(checked!, after);
      }
      expect(mismatches(logs)).toHaveLength(6);
    });

    it("IBX-008 IBX-028 a done message whose hash is of another algorithm is done, with the hash of what was handled", async () => {
      const { inbox, logs, owner } = await freshInbox();
      const first = message({ hash: textHashOf("sha256", "one") });
      await inbox.ack(owner, [await held(inbox, owner, first)]);
      expect(await inbox.receive({ ...first, hash: textHashOf("md5", "one") })).toBe("done");
      expect(await inbox.receive({ ...first, hash: hashOf("one") })).toBe("done");
      expect(await inbox.receive({ ...first, hash: textHashOf("sha256", "two") })).toBe("conflict");
      expect(mismatches(logs)).toHaveLength(1);
      expect((await stored(inbox, first)).hash).toBe(textHashOf("sha256", "one"));
    });

    it("IBX-129 a hash from a check, a message or a batch is returned byte for byte", async () => {
      const { inbox, owner } = await freshInbox();
      const hash = hashOf("content");
      // zero bytes at both ends, and every byte value there is
      const awkward = Uint8Array.from({ length: 256 }, (_, n) => (255 - n) % 256);
      const part = new Uint8Array(awkward.buffer, 100, 32);
      const [checked, received, enqueued, sliced] = context.messages(4);
      await inbox.alreadyProcessed(checked!, hash);
      await inbox.receive({ ...received!, hash: awkward });
      await inbox.enqueue([
        { ...enqueued!, hash },
        { ...sliced!, hash: part },
      ]);

      const hex = async (key: typeof checked) =>
        Buffer.from((await stored(inbox, key!)).hash!).toString("hex");
      expect(await hex(checked)).toBe(hash.toString("hex"));
      expect(await hex(received)).toBe(Buffer.from(awkward).toString("hex"));
      expect(await hex(enqueued)).toBe(hash.toString("hex"));
      expect(await hex(sliced)).toBe(Buffer.from(part).toString("hex"));
      for (const claimed of await inbox.claim({ owner })) expect(claimed.hash).toBeInstanceOf(Uint8Array);
    });
  });
}
