import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { asTransaction } from "../../../src/sql/driver.js";
import { fieldsOf } from "../support/recording-logger.js";
import { brokenConnection, deadlock, watched, withVictim } from "../support/watched.js";
import { claimAll, messages, type QueueContext } from "./support.js";

/** Deadlocks and lost connections. */
export function faultTests({ database, queue, ids, keyOf, counts, states }: QueueContext): void {
  describe("database faults", () => {
    it("IBX-104 OBX-082 every call of a whole cycle is repeated after a deadlock, with a warning", async () => {
      const { on, owner, log, clock } = await queue();
      const { db } = database();
      const failing = () => on(watched(db, [{ fail: deadlock(db) }]));
      await failing().addOne({ topic: "t", payload: "" });
      expect(await failing().add(messages(3))).toHaveLength(3);
      const claimed = await failing().claim({ owner });
      expect(claimed).toHaveLength(4);
      const [a, b, c, d] = claimed;
      expect((await failing().renew(owner, claimed, 60_000)).changed).toHaveLength(4);
      expect((await failing().ack(owner, [a!])).changed).toHaveLength(1);
      expect((await failing().abandon(owner, [b!])).changed).toHaveLength(1);
      expect((await failing().fail(owner, [c!], "no")).changed).toHaveLength(1);
      expect((await failing().release(owner, [keyOf(d!)])).changed).toHaveLength(1);
      expect((await failing().replay([c!])).changed).toHaveLength(1);
      clock.advance(60 * 86_400_000);
      expect(await failing().reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      expect((await failing().purgeDone()).purged).toBe(1);
      expect((await failing().stats()).counts).toEqual(counts({ waiting: 3 }));

      const warnings = fieldsOf(log, "warn", "database fault, trying again");
      expect(warnings).toHaveLength(12);
      expect(warnings[0]).toMatchObject({ statement: expect.any(String), retry: 1 });
    });

    it("IBX-104 OBX-082 ADD-17 the calls of operators are repeated after a deadlock", async () => {
      const { store, on, owner, log } = await queue();
      const { db } = database();
      const by = { by: "alice" };
      const failing = () => on(withVictim(db));
      await store.add(messages(3));
      const claimed = await store.claim({ owner });
      await store.fail(owner, claimed, "no");
      const [a, b] = claimed;
      expect((await failing().discard([keyOf(a!)], by)).changed).toHaveLength(1);
      expect((await failing().archive([keyOf(b!)], by)).changed).toHaveLength(1);
      const topic = "t";
      expect(await failing().pause({ topic }, by)).toMatchObject({ paused: true });
      expect(await failing().limit({ topic, perSecond: 5 }, by)).toMatchObject({ perSecond: 5 });
      expect(await failing().resume({ topic }, by)).toMatchObject({ wasPaused: true });
      expect(await failing().limit({ topic, perSecond: null }, by)).toBeNull();
      expect(await store.controls()).toEqual([]);
      expect(fieldsOf(log, "warn", "database fault, trying again")).toHaveLength(6);
    });

    it("IBX-104 OBX-082 an enqueue is repeated after several deadlocks, and stores its messages once", async () => {
      const { on, store, stored, log } = await queue();
      const { db } = database();
      for (const batch of [messages(1), messages(3)]) {
        const faulty = watched(db, [{ fail: deadlock(db) }, { fail: deadlock(db) }]);
        const keys = await on(faulty).add(batch);
        expect(faulty.calls).toHaveLength(3);
        for (const key of keys) expect((await stored(key)).state).toBe(states.waiting);
      }
      expect((await store.stats()).counts).toEqual(counts({ waiting: 4 }));
      expect(fieldsOf(log, "warn", "database fault, trying again")).toHaveLength(4);
    });

    it("IBX-104 OBX-082 an enqueue that was committed but whose answer was lost stores its messages once", async () => {
      const { on, store, owner } = await queue();
      const { db } = database();
      const single = watched(db, [{ loseAnswer: brokenConnection(db) }]);
      const one = await on(single).addOne({ topic: "t", payload: "" });
      const many = watched(db, [{ loseAnswer: brokenConnection(db) }]);
      const more = await on(many).add(messages(3));
      for (const { calls } of [single, many]) {
        expect(calls).toHaveLength(2);
        expect(calls[0]).toBe(calls[1]);
      }
      expect((await store.list()).messages).toHaveLength(4);
      const claimed = await store.claim({ owner });
      expect(ids(claimed)).toEqual(ids([one, ...more]));
      expect(claimed.every((message) => message.attempt === 0)).toBe(true);
      expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);
    });

    it("IBX-104 OBX-082 an enqueue in the caller's transaction is not repeated: the caller gets the fault", async () => {
      const { store } = await queue();
      const fault = deadlock(database().db);
      let calls = 0;
      const tx = asTransaction({
        query: async () => {
          calls++;
          throw fault;
        },
      });
      await expect(store.addOne({ topic: "t", payload: "" }, { tx })).rejects.toBe(fault);
      await expect(store.add(messages(2), { tx })).rejects.toBe(fault);
      expect(calls).toBe(2);
    });

    it("IBX-104 OBX-082 a claim whose answer was lost is repeated; what the first one leased is claimable after the lease", async () => {
      const { on, store, owner, clock } = await queue();
      const { db } = database();
      const keys = await store.add(messages(2));
      const losing = on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const claimed = await losing.claim({ owner, batchSize: 1 });
      expect(claimed).toHaveLength(1);
      expect((await store.ack(owner, claimed)).changed).toHaveLength(1);
      expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(60_000);
      const later = await claimAll(store, newOwnerToken());
      expect(ids([...claimed, ...later])).toEqual(ids(keys));
    });

    it("IBX-104 OBX-082 a settlement whose answer was lost is repeated and counts once", async () => {
      const { on, owner, held, stored } = await queue();
      const { db } = database();
      const losing = () => on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const [a, b, c, d] = await held(4);
      await losing().ack(owner, [a!]);
      await losing().abandon(owner, [b!], { error: "503" });
      await losing().fail(owner, [c!], "410");
      await losing().renew(owner, [d!], 60_000);
      expect(await stored(a!)).toMatchObject({ state: states.done, attempt: 0, processedBy: owner });
      const waiting = { state: states.waiting, attempt: 1, owner: null, lastError: "503" };
      expect(await stored(b!)).toMatchObject(waiting);
      expect(await stored(c!)).toMatchObject({ state: states.dead, attempt: 1, lastError: "410" });
      expect(await stored(d!)).toMatchObject({ state: states.held, attempt: 0, owner });
    });

    it("IBX-104 OBX-082 a permanent fault is not repeated, and a lasting one reaches the caller in the end", async () => {
      const { store, on } = await queue();
      const { db } = database();
      const permanent = Object.assign(new Error("disk full"), { code: "XX000" });
      const once = watched(db, [{ fail: permanent }]);
      await expect(on(once).addOne({ topic: "t", payload: "" })).rejects.toBe(permanent);
      expect(once.calls).toHaveLength(1);

      const fault = deadlock(db);
      const always = () =>
        watched(
          db,
          Array.from({ length: 50 }, () => ({ fail: fault })),
        );
      const adding = always();
      await expect(on(adding).addOne({ topic: "t", payload: "" })).rejects.toBe(fault);
      const counting = always();
      await expect(on(counting).stats()).rejects.toBe(fault);
      for (const { calls } of [adding, counting]) expect(calls.length).toBeGreaterThan(2);
      expect((await store.list()).messages).toEqual([]);
    });
  });
}
