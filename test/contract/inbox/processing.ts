import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { fieldsOf } from "../support/recording-logger.js";
import { brokenConnection, deadlock, watched } from "../support/watched.js";
import { holding, type InboxContext, keyOf, keyTexts, stored } from "./support.js";

const hour = 3_600_000;
const nothingReaped = { reaped: 0, dead: 0, more: false };

/** Which messages of an inbox are claimed and reaped. */
export function claimTests(context: InboxContext): void {
  const { freshInbox, messages } = context;

  describe("claim and reap: inbox only", () => {
    it("IBX-031 a message that was only seen, or is marked as processing by hand, is not claimed", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const [seen, marked, enqueued] = messages(3);
      await inbox.alreadyProcessed(seen!);
      await inbox.alreadyProcessed(marked!);
      await inbox.markProcessing(marked!);
      await inbox.receive(enqueued!);
      expect(keyTexts(await inbox.claim({ owner }))).toEqual(keyTexts([enqueued!]));
      await inbox.ack(owner, [enqueued!]);
      clock.advance(24 * hour);
      expect(await inbox.claim({ owner })).toEqual([]);
      expect((await stored(inbox, seen!)).state).toBe("Seen");
      expect((await stored(inbox, marked!)).state).toBe("Processing");
    });

    it("IBX-038 messages that were marked done or dead by hand are never claimed", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const [done, dead] = messages(2);
      await inbox.enqueue([done!, dead!]);
      await inbox.markProcessed(done!);
      await inbox.markDead(dead!, "by hand");
      for (const waitMs of [0, hour, 365 * 24 * hour]) {
        clock.advance(waitMs);
        expect(await inbox.claim({ owner })).toEqual([]);
      }
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 0, Done: 1, Dead: 1 });
    });

    it("IBX-071 reaping leaves messages that are Seen or marked by hand as they are", async () => {
      const { inbox, clock } = await context.freshInbox();
      const [seen, marked] = context.messages(2).map(keyOf);
      await inbox.alreadyProcessed(seen!);
      await inbox.markProcessing(marked!);
      const keys = [seen!, marked!];
      const before = await Promise.all(keys.map((key) => stored(inbox, key)));
      clock.advance(30 * 86_400_000);
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
      expect(await Promise.all(keys.map((key) => stored(inbox, key)))).toEqual(before);
    });

    it("IBX-071 reaping leaves messages that an operator marked Done or Dead while they were leased as they are", async () => {
      const { inbox, clock, claimed } = await holding(context, 2);
      await inbox.markProcessed(keyOf(claimed[0]!));
      await inbox.markDead(keyOf(claimed[1]!), "by hand");
      const before = await Promise.all(claimed.map((key) => stored(inbox, key)));
      clock.advance(60_000);
      expect(await inbox.reapExpired()).toEqual(nothingReaped);
      expect(await Promise.all(claimed.map((key) => stored(inbox, key)))).toEqual(before);
    });
  });
}

/** Redelivery after an expiry, and faults while receiving. */
export function retryTests(context: InboxContext): void {
  describe("retries: inbox only", () => {
    it("IBX-005 ADD-03 neither a check nor the same delivery restores the expiry that a replay removed", async () => {
      const { inbox, clock } = await context.freshInbox();
      const owner = newOwnerToken();
      const message = context.message({ expiresAt: new Date(clock().getTime() + 1_000) });
      await inbox.receive(message);
      clock.advance(2_000);
      expect(await inbox.claim({ owner })).toEqual([]);
      expect((await inbox.replay([message])).changed).toHaveLength(1);
      expect(await inbox.alreadyProcessed(keyOf(message))).toBe(false);
      expect(await inbox.receive(message)).toBe("duplicate");
      expect(await inbox.claim({ owner })).toMatchObject([{ messageId: message.messageId, expiresAt: null }]);
    });

    it("IBX-104 a receive whose result was lost after the commit returns enqueued or duplicate", async () => {
      const { inbox, on } = await context.freshInbox();
      const { db } = context.database();
      const losing = () => on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const [one, ...many] = context.messages(4);
      expect(["enqueued", "duplicate"]).toContain(await losing().receive(one!));
      for (const outcome of await losing().enqueue(many))
        expect(["enqueued", "duplicate"]).toContain(outcome);
      expect((await inbox.list()).messages).toHaveLength(4);
    });

    it("IBX-104 a receive and a check are repeated after a deadlock, with a warning", async () => {
      const { inbox, on, logs } = await context.freshInbox();
      const { db } = context.database();
      const message = context.message();
      const failing = () => on(watched(db, [{ fail: deadlock(db) }]));
      expect(await failing().receive(message)).toBe("enqueued");
      expect(await failing().alreadyProcessed(keyOf(message))).toBe(false);
      expect((await stored(inbox, message)).deliveries).toBe(2);
      const warnings = fieldsOf(logs, "warn", "database fault, trying again");
      expect(warnings).toMatchObject([{ statement: "receive", retry: 1 }, { retry: 1 }]);
    });
  });
}

/** What deduplication logs. */
export function observabilityTests(context: InboxContext): void {
  describe("observability: inbox only", () => {
    it("IBX-107 logs every deduplication check at debug, with the key and the result", async () => {
      const { inbox, logs } = await context.freshInbox();
      const key = keyOf(context.message());
      await inbox.alreadyProcessed(key);
      await inbox.alreadyProcessed(key);
      await inbox.markProcessed(key);
      await inbox.alreadyProcessed(key);
      const checks = fieldsOf(logs, "debug", "already processed?");
      expect(checks).toMatchObject([false, false, true].map((processed) => ({ ...key, processed })));
      expect(logs.filter((line) => line.level === "warn")).toEqual([]);
    });

    it("IBX-108 logs every enqueued message at info, with topic, source, id and outcome", async () => {
      const { inbox, logs } = await context.freshInbox();
      const [a, b, c] = context.messages(3);
      await inbox.receive(a!);
      await inbox.enqueue([b!, c!, a!]);
      const fields = ({ topic, source, messageId }: typeof a & object) => ({ topic, source, messageId });
      expect(fieldsOf(logs, "info", "enqueue")).toMatchObject([
        { ...fields(a!), outcome: "enqueued" },
        { ...fields(b!), outcome: "enqueued" },
        { ...fields(c!), outcome: "enqueued" },
        { ...fields(a!), outcome: "duplicate" },
      ]);
    });

    it("IBX-113 a line about other content names the store", async () => {
      const { inbox, logs } = await context.freshInbox({ id: "tenant-7" });
      const hash = (byte: number) => new Uint8Array([byte]);
      await inbox.receive(context.message({ messageId: "same", hash: hash(1) }));
      await inbox.receive(context.message({ messageId: "same", hash: hash(2) }));
      await inbox.alreadyProcessed({ source: "test", messageId: "same" }, hash(3));
      expect(logs.filter((line) => line.level === "warn")).toHaveLength(2);
      for (const line of logs) expect(line.fields.store, line.message).toBe("tenant-7");
    });

    it("IBX-127 no payload and no header is logged when a message arrives again, with other content or is marked", async () => {
      const secret = "4111-1111-1111-1111";
      const { inbox, logs } = await context.freshInbox();
      const first = context.message({ payload: secret, headers: { authorization: secret } });
      const hash = (byte: number) => new Uint8Array([byte]);
      await inbox.receive({ ...first, hash: hash(1) });
      await inbox.receive({ ...first, hash: hash(1) });
      expect(await inbox.receive({ ...first, hash: hash(2) })).toBe("conflict");
      await inbox.alreadyProcessed(keyOf(first), hash(3));
      await inbox.markProcessed(keyOf(first));
      const error = await inbox.receive({ ...first, hash: secret as never }).catch((thrown: Error) => thrown);
      expect(error).toBeInstanceOf(InvalidArgumentError);
      expect(String(error)).not.toContain(secret);
      expect(logs.length).toBeGreaterThan(4);
      expect(JSON.stringify(logs)).not.toContain(secret);
    });
  });
}

const day = 86_400_000;

/** What clean-up keeps, so that a redelivery is still recognised. */
export function cleanUpTests(context: InboxContext): void {
  describe("clean-up: inbox only", () => {
    it("IBX-098 a message that arrives again after its purge is new", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      const [first] = claimed;
      await inbox.ack(owner, claimed);
      clock.advance(31 * day);
      await inbox.purgeDone();
      const again = { ...keyOf(first!), topic: "again", payload: "new" };
      expect(await inbox.receive(again)).toBe("enqueued");
      const [second] = await inbox.claim({ owner });
      expect(second).toMatchObject({ ...again, attempt: 0, deliveries: 1, firstSeenAt: clock() });
      expect(second!.seq).toBeGreaterThan(first!.seq);
    });

    it("IBX-099 purgeDone keeps messages that are Seen or marked as Processing or Dead, however old", async () => {
      const { inbox, clock } = await context.freshInbox();
      const [done, seen, marked, dead] = context.messages(4).map(keyOf);
      await inbox.markProcessed(done!);
      await inbox.alreadyProcessed(seen!);
      await inbox.markProcessing(marked!);
      await inbox.markDead(dead!);
      const kept = [seen!, marked!, dead!];
      const before = await Promise.all(kept.map((key) => stored(inbox, key)));

      clock.advance(3_650 * day);
      expect(await inbox.purgeDone({ retentionMs: 1 })).toMatchObject({ purged: 1, more: false });
      expect(await inbox.get(done!)).toBeNull();
      expect(await Promise.all(kept.map((key) => stored(inbox, key)))).toEqual(before);
    });

    it("ADD-02 a Dead message that arrived again within its retention is kept; after its purge it is new", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      const [dead] = claimed;
      await inbox.fail(owner, claimed, "no");
      await inbox.markDead(keyOf(context.message()));
      clock.advance(20 * day);
      const again = { ...keyOf(dead!), topic: "t", payload: "" };
      expect(await inbox.receive(again)).toBe("dead");
      expect(await inbox.purgeDead({ retentionMs: 10 * day })).toMatchObject({ purged: 1 }); // the one marked by hand
      clock.advance(10 * day + 1);
      expect(await inbox.purgeDead({ retentionMs: 10 * day })).toMatchObject({ purged: 1 });
      expect(await inbox.receive(again)).toBe("enqueued");
      expect(await inbox.claim({ owner })).toMatchObject([{ attempt: 0, deliveries: 1, lastError: null }]);
    });

    it("ADD-02 a message that is no longer dead, revived or marked by hand, is not purged as dead", async () => {
      const { inbox, owner, clock } = await context.freshInbox({ deadOnRedelivery: "revive" });
      const [processed, revived] = context.messages(2);
      await inbox.enqueue([processed!, revived!]);
      await inbox.fail(owner, await inbox.claim({ owner }), "no");
      await inbox.markProcessed(keyOf(processed!));
      await inbox.receive(revived!);
      clock.advance(300 * day);
      expect(await inbox.purgeDead({ retentionMs: day })).toMatchObject({ purged: 0 });
      expect((await stored(inbox, processed!)).state).toBe("Done");
      expect(await inbox.claim({ owner })).toMatchObject([keyOf(revived!)]);
    });

    it("IBX-100 keeps 30 days by default, for acked messages and for those marked by hand", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      await inbox.ack(owner, claimed);
      await inbox.markProcessed(keyOf(context.message()));
      clock.advance(30 * day);
      expect((await inbox.purgeDone()).purged).toBe(0);
      clock.advance(1);
      expect((await inbox.purgeDone()).purged).toBe(2);
    });

    it("IBX-100 a Done message that arrived again within the retention is kept, so that no redelivery is handled again", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 2);
      await inbox.ack(owner, claimed);
      clock.advance(20 * day);
      const [again, checked] = claimed.map(keyOf);
      expect(await inbox.receive({ ...again!, topic: "t", payload: "" })).toBe("done");
      expect(await inbox.alreadyProcessed(checked!)).toBe(true);
      clock.advance(20 * day); // 40 days since it was done, 20 since it was seen
      expect((await inbox.purgeDone()).purged).toBe(0);
      expect(await inbox.receive({ ...again!, topic: "t", payload: "" })).toBe("done");
      clock.advance(11 * day);
      expect((await inbox.purgeDone()).purged).toBe(1);
      expect(await inbox.get(checked!)).toBeNull();
      expect(await inbox.get(again!)).not.toBeNull();
    });
  });
}
