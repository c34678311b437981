import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { forbid } from "../support/database.js";
import { fieldsOf } from "../support/recording-logger.js";
import { deadlock, watched } from "../support/watched.js";
import { messages, type NewMessage, type QueueContext } from "./support.js";

const secret = "4111-1111-1111-1111";
const day = 86_400_000;

/** What is logged, and what never is. */
export function observabilityTests({ database, queue, keyOf }: QueueContext): void {
  describe("observability", () => {
    it("IBX-108 OBX-085 logs every enqueued message at info, with topic and key", async () => {
      const { store, log } = await queue();
      const first = await store.addOne({ topic: "order.created", payload: "x" });
      const more = await store.add([
        { topic: "a", payload: "x" },
        { topic: "b", payload: "x" },
      ]);
      const caller = await database().begin();
      const [last] = await store.add([{ topic: "in.tx", payload: "x" }], { tx: caller.tx });
      await caller.commit();
      expect(fieldsOf(log, "info", "enqueue")).toMatchObject([
        { topic: "order.created", ...first },
        { topic: "a", ...more[0]! },
        { topic: "b", ...more[1]! },
        { topic: "in.tx", ...last! },
      ]);
    });

    it("IBX-108 OBX-085 does not log an enqueue that failed", async () => {
      const { on, log } = await queue();
      const broken = Object.assign(new Error("disk full"), { code: "XX000" });
      const failing = on(watched(database().db, [{ fail: broken }, { fail: broken }]));
      await expect(failing.addOne({ topic: "t", payload: "" })).rejects.toBe(broken);
      await expect(failing.add(messages(2))).rejects.toBe(broken);
      expect(fieldsOf(log, "info", "enqueue")).toEqual([]);
    });

    it("IBX-109 OBX-086 logs every claim at debug, with the number of messages, none included", async () => {
      const { store, owner, log } = await queue();
      await store.add(messages(3));
      await store.claim({ owner, batchSize: 2 });
      await store.claim({ owner });
      await store.claim({ owner });
      expect(fieldsOf(log, "debug", "claim").map((fields) => fields.claimed)).toEqual([2, 1, 0]);
    });

    it("IBX-112 OBX-089 logs a reaping at info, with the numbers of messages", async () => {
      const { store, held, clock, log } = await queue();
      await held(3);
      await store.add(messages(1, { expiresAt: new Date(clock().getTime() + 1) }));
      clock.advance(30_001);
      await store.reapExpired({ batchSize: 2 });
      expect(fieldsOf(log, "info", "reap")).toMatchObject([{ reaped: 3, dead: 1 }]);
    });

    it("IBX-127 OBX-106 logs a purge and a replay at info, and a dead message as a warning with its key but without the error's text", async () => {
      const { store, owner, clock, log, held } = await queue();
      const [done, doomed] = await held(2);
      await store.ack(owner, [done!]);
      await store.fail(owner, [doomed!], "410 for card 4242");
      await store.replay([doomed!]);
      clock.advance(31 * day);
      await store.purgeDone();
      expect(fieldsOf(log, "warn", "message is dead")).toMatchObject([keyOf(doomed!)]);
      expect(JSON.stringify(log)).not.toContain("4242");
      expect(fieldsOf(log, "info", "replay")).toMatchObject([{ replayed: 1 }]);
      expect(fieldsOf(log, "info", "purge")).toMatchObject([{ purged: 1 }]);
    });

    it("logs settlements at debug with their numbers, and a lost lease as a warning", async () => {
      const { store, owner, log, held } = await queue();
      const claimed = await held(3);
      const [a, b, c] = claimed;
      await store.renew(owner, claimed, 30_000);
      await store.ack(owner, [a!]);
      await store.abandon(owner, [b!]);
      await store.release(owner, [c!]);
      for (const verb of ["renew", "ack", "abandon", "release"]) {
        const changed = verb === "renew" ? 3 : 1;
        expect(fieldsOf(log, "debug", verb), verb).toMatchObject([{ changed, lost: 0, dead: 0 }]);
      }
      expect(log.filter((line) => line.level === "warn")).toEqual([]);
      await store.ack(newOwnerToken(), [c!]);
      expect(log.filter((line) => line.level === "warn")).toMatchObject([{ fields: { lost: 1 } }]);
    });

    it("ADD-02 a replay of a message that is not dead logs no warning about an owner", async () => {
      const { store, log, held } = await queue();
      expect((await store.replay(await held(1))).lost).toHaveLength(1);
      expect(log.filter((line) => /owner/.test(line.message))).toEqual([]);
    });

    it("IBX-113 OBX-090 every line names the store", async () => {
      const { store, on, owner, held, clock, log } = await queue({ id: "tenant-7" });
      expect(store.id).toBe("tenant-7");
      const claimed = await held(4);
      await store.ack(owner, [claimed[0]!]);
      await store.ack(newOwnerToken(), [claimed[1]!]);
      await store.abandon(owner, [claimed[1]!], { error: "503" });
      await store.fail(owner, [claimed[2]!], "410");
      await store.replay([claimed[2]!]);
      clock.advance(31 * day);
      await store.reapExpired();
      await store.purgeDone();
      const { db } = database();
      await on(watched(db, [{ fail: deadlock(db) }])).stats();
      const alarm = () => {
        throw new Error("the alarm is broken");
      };
      const failing = on(watched(db, [{ fail: deadlock(db) }]), { onDead: alarm });
      await failing.fail(owner, await failing.claim({ owner, batchSize: 1 }), "no");

      expect(log.length).toBeGreaterThan(8);
      expect(new Set(log.map((line) => line.level))).toEqual(new Set(["debug", "info", "warn", "error"]));
      for (const line of log) expect(line.fields.store, line.message).toBe("tenant-7");
    });

    it("IBX-113 OBX-090 a store without a name has its database's, which contains no secret", async () => {
      const { store, log } = await queue();
      await store.add(messages(1));
      expect(store.id).toBe(database().db.id);
      expect(log.map((line) => line.fields.store)).toEqual([store.id]);
      expect(store.id).not.toMatch(/postgres:postgres|password|@/i);
    });

    it("IBX-127 OBX-106 no payload and no header is logged in a whole cycle, whatever goes wrong", async () => {
      const { store, on, owner, clock, log } = await queue({
        retry: { maxAttempts: 2 },
        onDead: ({ message }) => {
          throw new Error(`no alarm for ${secret} ${JSON.stringify(message)}`);
        },
      });
      const card = { topic: "card", payload: secret, headers: { authorization: secret } };
      await store.addOne(card);
      await store.add([card, card, card, card]);
      const caller = await database().begin();
      await store.addOne(card, { tx: caller.tx });
      await caller.commit();
      const { db } = database();
      const detail = `Failing row contains (${secret})`;
      const fault = Object.assign(Object.create(deadlock(db)) as Error, { detail });
      await on(watched(db, [{ fail: fault }])).addOne(card);
      const broken = Object.assign(new Error(`duplicate key (${secret})`), { code: "XX000" });
      await expect(on(watched(db, [{ fail: broken }])).addOne(card)).rejects.toBe(broken);

      const claimed = await store.claim({ owner, batchSize: 4 });
      await store.renew(owner, claimed, 30_000);
      await store.ack(owner, [claimed[0]!]);
      await store.abandon(owner, [claimed[1]!], { error: "503" });
      await store.fail(owner, [claimed[2]!], "410");
      await store.release(owner, [claimed[3]!]);
      await store.ack(newOwnerToken(), claimed);
      await store.replay(claimed);
      for (let round = 0; round < 8; round++) {
        clock.advance(120_000);
        await store.claim({ owner });
        await store.reapExpired();
      }
      await store.list();
      await store.stats();
      clock.advance(31 * day);
      await store.purgeDone();

      expect(fieldsOf(log, "error", "onDead failed").length).toBeGreaterThan(0);
      expect(fieldsOf(log, "warn", "database fault, trying again")).toHaveLength(1);
      expect(log.length).toBeGreaterThan(20);
      expect(JSON.stringify(log)).not.toContain(secret);
    });

    it("IBX-127 OBX-106 no error of ours quotes the payload or the headers", async () => {
      const { store, log } = await queue();
      const wrong: Record<string, unknown>[] = [
        { payload: `${secret}\uD800` },
        { payload: { card: secret } },
        { payload: [secret] },
        { payload: Buffer.from(secret) },
        { headers: { authorization: [secret] } },
        { headers: [secret] },
        { headers: secret },
        { dueAt: secret },
        { expiresAt: secret },
        { topic: "" },
      ];
      for (const part of wrong) {
        const message = { topic: "t", payload: secret, ...part } as NewMessage;
        for (const call of [() => store.addOne(message), () => store.add([message])]) {
          const error = await rejectionOf(call);
          expect(error.name, String(Object.keys(part))).toBe("InvalidArgumentError");
          expect(error.message).not.toContain(secret);
        }
      }
      expect(JSON.stringify(log)).not.toContain(secret);
    });

    it("IBX-127 OBX-106 the database's error about a row quotes the payload neither in its message nor in the log", async () => {
      const { store, names, log } = await queue();
      await forbid(database(), names, "message", "insert", "payload not like '%1111%'");
      const message = { topic: "t", payload: secret };
      for (const call of [() => store.addOne(message), () => store.add([message])]) {
        const error = await rejectionOf(call);
        expect(error.message).toMatch(/forbidden|check|constraint/i);
        expect(error.message).not.toContain(secret);
      }
      expect(JSON.stringify(log)).not.toContain(secret);
    });
  });
}

const rejectionOf = (call: () => Promise<unknown>): Promise<Error> =>
  call().then(
    () => new Error("it was accepted"),
    (rejected: Error) => rejected,
  );
