import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import type { OnceMessage } from "../../../src/outbox/enqueue.js";
import { skipUnless } from "../harness.js";
import { brokenConnection, watched } from "../support/watched.js";
import { type OutboxContext, stored } from "./support.js";

const invoice = (naturalKey: string, more: Partial<OnceMessage> = {}): OnceMessage => ({
  topic: "invoice.created",
  payload: "first",
  naturalKey,
  ...more,
});
const day = 86_400_000;

/** Messages with a natural key: a second enqueue returns the first. */
export function enqueueOnceTests({ database, box }: OutboxContext): void {
  describe("enqueue once", () => {
    it("ADD-18 a second enqueue with the same topic and key returns the first message's id and leaves that message as it is", async () => {
      const { outbox } = await box();
      const first = await outbox.enqueueOnce(invoice("7"));
      expect(first.existing).toBe(false);
      const again = await outbox.enqueueOnce(invoice("7", { payload: "second", partitionKey: "p" }));
      expect(again).toEqual({ id: first.id, existing: true });
      expect(await outbox.enqueue(invoice("7"))).toBe(first.id);
      expect(await stored(outbox, first)).toMatchObject({
        payload: "first",
        partitionKey: null,
        naturalKey: "7",
      });
      expect((await outbox.stats()).counts.Ready).toBe(1);
    });

    it("ADD-18 a key belongs to its topic and compares byte by byte", async () => {
      const { outbox } = await box();
      const longest = "ü".repeat(255);
      const others = [
        invoice("a"),
        invoice("A"),
        invoice(" a"),
        invoice("ä"),
        invoice("a", { topic: "invoice.paid" }),
        invoice(longest),
      ];
      for (const message of others) expect((await outbox.enqueueOnce(message)).existing).toBe(false);
      for (const message of others) expect((await outbox.enqueueOnce(message)).existing).toBe(true);
      expect((await outbox.list()).messages.map(({ naturalKey }) => naturalKey)).toEqual([
        ...["a", "A", " a", "ä", "a"],
        longest,
      ]);
    });

    it("ADD-18 in a batch, a repeated or known key returns the first message's id, and the others are added", async () => {
      const { outbox, owner } = await box();
      const { id } = await outbox.enqueueOnce(invoice("known"));
      const plain = { topic: "invoice.created", payload: "plain" };
      const batch = [invoice("z"), plain, invoice("known"), invoice("b"), plain, invoice("z")];
      const ids = await outbox.enqueue(batch);
      expect(new Set(ids).size).toBe(5);
      expect(ids[2]).toBe(id);
      expect(ids[5]).toBe(ids[0]);
      const keyed = batch.filter((message): message is OnceMessage => "naturalKey" in message);
      const once = await outbox.enqueueOnce([...keyed, invoice("new"), invoice("new")]);
      expect(once.map(({ existing }) => existing)).toEqual([true, true, true, true, false, true]);
      expect(once[5]!.id).toBe(once[4]!.id);
      expect(await outbox.enqueueOnce([])).toEqual([]);
      expect(await outbox.claim({ owner })).toHaveLength(6);
    });

    it("ADD-18 ADD-01 messages with partition keys keep the order of the batch", async () => {
      const { outbox, owner } = await box();
      const partition = (naturalKey: string) => invoice(naturalKey, { partitionKey: "p" });
      const [z, b, a] = await outbox.enqueue([partition("z"), partition("b"), partition("a")]);
      await outbox.enqueueOnce([partition("b"), partition("z")]);
      for (const id of [z, b, a]) {
        const claimed = await outbox.claim({ owner });
        expect(claimed.map((message) => message.id)).toEqual([id]);
        await outbox.ack(owner, claimed);
      }
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("ADD-18 is one statement; an enqueue without a key uses the plain one", async () => {
      const { on } = await box();
      const db = watched(database().db);
      await on(db).enqueueOnce(invoice("1"));
      await on(db).enqueueOnce(invoice("1"));
      await on(db).enqueue([invoice("2"), invoice("3", { partitionKey: "p" }), { topic: "t", payload: "" }]);
      await on(db).enqueue({ topic: "t", payload: "", naturalKey: null });
      expect(db.calls).toEqual(["enqueue once", "enqueue once", "enqueue once", "enqueue"]);
    });

    it("ADD-18 OBX-082 a call whose result was lost after the commit is repeated and returns its own messages as new", async () => {
      const { outbox, on } = await box();
      const { db } = database();
      const faulty = watched(db, [{ loseAnswer: brokenConnection(db) }]);
      const enqueued = await on(faulty).enqueueOnce([invoice("1"), invoice("2")]);
      expect(faulty.calls).toHaveLength(2);
      expect(enqueued.map(({ existing }) => existing)).toEqual([false, false]);
      for (const { id } of enqueued) expect((await stored(outbox, { id })).payload).toBe("first");
    });

    it("ADD-18 a key is known within its transaction, and unknown again after a rollback", async () => {
      const { outbox } = await box();
      const undone = await database().begin();
      const first = await outbox.enqueueOnce(invoice("7"), { tx: undone.tx });
      expect(await outbox.enqueueOnce(invoice("7"), { tx: undone.tx })).toEqual({
        id: first.id,
        existing: true,
      });
      await undone.rollback();
      expect(await outbox.get(first)).toBeNull();

      const kept = await database().begin();
      const second = await outbox.enqueueOnce(invoice("7"), { tx: kept.tx });
      expect(second.existing).toBe(false);
      await kept.commit();
      expect(await outbox.enqueueOnce(invoice("7"))).toEqual({ id: second.id, existing: true });
    });

    it("ADD-18 of two transactions with the same key the later waits, gets the first message's id and commits its other work", async (test) => {
      skipUnless(test, database(), "concurrentWriters");
      const { outbox, names } = await box();
      const first = await database().begin();
      const second = await database().begin();
      const { id } = await outbox.enqueueOnce(invoice("7"), { tx: first.tx });
      const late = outbox.enqueueOnce([invoice("7"), invoice("8")], { tx: second.tx });
      await first.commit();
      const [known, added] = await late;
      expect([known, added!.existing]).toEqual([{ id, existing: true }, false]);
      await outbox.enqueue({ topic: "t", payload: "" }, { tx: second.tx });
      await second.run(`update ${names.state} set attempt = 1 where 1 = 0`);
      await second.commit();
      expect((await outbox.stats()).counts.Ready).toBe(3);
    }, 300_000);

    it("ADD-18 when the first of two transactions is rolled back, the later one adds the message", async (test) => {
      skipUnless(test, database(), "concurrentWriters");
      const { outbox } = await box();
      const first = await database().begin();
      const second = await database().begin();
      await outbox.enqueueOnce(invoice("7"), { tx: first.tx });
      const late = outbox.enqueueOnce(invoice("7"), { tx: second.tx });
      await first.rollback();
      const { id, existing } = await late;
      expect(existing).toBe(false);
      await second.commit();
      expect((await outbox.list()).messages.map((message) => message.id)).toEqual([id]);
    }, 300_000);

    it("ADD-18 concurrent callers leave one message for each key, whatever the order of their keys", async () => {
      const { outbox, on } = await box();
      const other = on(database().reopen());
      const keys = ["c", "a", "b"];
      const calls = Array.from({ length: 12 }, (_, index) => {
        const named = index % 2 === 0 ? keys : keys.toReversed();
        return (index % 3 === 0 ? other : outbox).enqueueOnce(named.map((key) => invoice(key)));
      });
      const all = (await Promise.all(calls)).flat();
      expect(all.filter(({ existing }) => !existing)).toHaveLength(3);
      expect(new Set(all.map(({ id }) => id)).size).toBe(3);
      expect((await outbox.stats()).counts.Ready).toBe(3);
    }, 300_000);

    it("ADD-18 a key is known until clean-up removes its done or failed message", async () => {
      const { outbox, owner, clock } = await box();
      const { id } = await outbox.enqueueOnce(invoice("7"));
      await outbox.fail(owner, await outbox.claim({ owner }), "410");
      expect(await outbox.enqueueOnce(invoice("7"))).toEqual({ id, existing: true });
      await outbox.replay([{ id }]);
      await outbox.ack(owner, await outbox.claim({ owner }));
      clock.advance(day);
      expect(await outbox.enqueueOnce(invoice("7"))).toEqual({ id, existing: true });
      expect(await outbox.claim({ owner })).toEqual([]);

      clock.advance(1);
      expect((await outbox.purgeDone({ retentionMs: day })).purged).toBe(1);
      const next = await outbox.enqueueOnce(invoice("7"));
      expect(next.existing).toBe(false);
      expect(next.id).not.toBe(id);
    });

    it("ADD-02 ADD-18 an edited message keeps its key, unless it moves to another topic", async () => {
      const { outbox, owner } = await box();
      const operators = operatorsOf(outbox);
      const by = { by: "alice" };
      for (const key of ["same", "moved"]) await outbox.enqueueOnce(invoice(key));
      const [same, moved] = await outbox.claim({ owner });
      await outbox.fail(owner, [same!, moved!], "410");
      const edited = await operators.editAndReplay({ id: same!.id }, { payload: "edited" }, by);
      const other = await operators.editAndReplay({ id: moved!.id }, { topic: "invoice.moved" }, by);
      expect(await stored(outbox, edited)).toMatchObject({ payload: "edited", naturalKey: "same" });
      expect(await stored(outbox, other)).toMatchObject({ topic: "invoice.moved", naturalKey: null });
      expect(await outbox.enqueueOnce(invoice("same"))).toEqual({ ...edited, existing: true });
      expect((await outbox.enqueueOnce(invoice("moved"))).existing).toBe(false);
    });

    it("ADD-02 ADD-18 the key of a discarded or archived message can be used again; that of an expired one after clean-up", async () => {
      const { outbox, owner, clock } = await box();
      const operators = operatorsOf(outbox);
      const by = { by: "alice" };
      const ttl = { expiresAt: new Date(clock().getTime() + 1) };
      for (const key of ["discarded", "archived"]) await outbox.enqueueOnce(invoice(key));
      const [discarded, archived] = await outbox.claim({ owner });
      await outbox.fail(owner, [discarded!, archived!], "410");
      const expired = await outbox.enqueueOnce(invoice("expired", ttl));
      clock.advance(day);
      await outbox.reapExpired();
      expect((await stored(outbox, expired)).state).toBe("Failed");
      expect(await outbox.enqueueOnce(invoice("expired"))).toEqual({ id: expired.id, existing: true });

      expect((await operators.discard([{ id: discarded!.id }], by)).changed).toHaveLength(1);
      expect((await operators.archive([{ id: archived!.id }], by)).changed).toHaveLength(1);
      for (const key of ["discarded", "archived"])
        expect((await outbox.enqueueOnce(invoice(key))).existing).toBe(false);

      clock.advance(day + 1);
      expect((await outbox.purgeDead({ retentionMs: day })).purged).toBe(1);
      expect((await outbox.enqueueOnce(invoice("expired"))).existing).toBe(false);
    });

    it("ADD-18 claim, get and the view show the key; the log has whether it was known, but not the key", async () => {
      const { outbox, owner, view, log } = await box();
      await outbox.enqueueOnce(invoice("secret-7"));
      await outbox.enqueueOnce(invoice("secret-7"));
      await outbox.enqueue({ topic: "t", payload: "plain" });
      expect((await view()).map((row) => row.NaturalKey)).toEqual(["secret-7", null]);
      const claimed = await outbox.claim({ owner });
      expect(claimed.map(({ naturalKey }) => naturalKey)).toEqual(["secret-7", null]);
      expect((await stored(outbox, claimed[1]!)).naturalKey).toBeNull();
      const lines = log.filter(({ message }) => message === "enqueue");
      expect(lines.map(({ fields }) => fields.existing)).toEqual([undefined, true, undefined]);
      expect(JSON.stringify(log)).not.toContain("secret-7");
    });

    it("ADD-18 an invalid or missing key is refused, and nothing of the batch is stored", async () => {
      const { outbox } = await box();
      for (const wrong of ["", "x".repeat(256), "a ", "a\0", "\ud800", 7, {}]) {
        const message = { ...invoice("7"), naturalKey: wrong as string };
        await expect(async () => outbox.enqueue([invoice("ok"), message])).rejects.toBeInstanceOf(
          InvalidArgumentError,
        );
      }
      for (const missing of [null, undefined]) {
        const message = { ...invoice("7"), naturalKey: missing as unknown as string };
        await expect(async () => outbox.enqueueOnce([invoice("ok"), message])).rejects.toBeInstanceOf(
          InvalidArgumentError,
        );
      }
      expect((await outbox.list()).messages).toEqual([]);
    });
  });
}
