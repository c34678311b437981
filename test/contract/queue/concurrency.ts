import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { skipUnless } from "../harness.js";
import { forbid, inTransaction, rowCount } from "../support/database.js";
import { watched } from "../support/watched.js";
import { type AnyMessage, claimAll, messages, type QueueContext, type QueueStore } from "./support.js";

/** Atomicity, isolation, and many workers at once. */
export function concurrencyTests(context: QueueContext): void {
  const { database, queue, ids, counts, states } = context;

  describe("atomicity", () => {
    it("IBX-102 OBX-080 a batch is enqueued whole or not at all", async () => {
      const { store, names } = await queue();
      await forbid(database(), names, "message", "insert", "topic <> 'forbidden'");
      const batch = [...messages(3), ...messages(1, { topic: "forbidden" }), ...messages(3)];
      await expect(store.add(batch)).rejects.toThrow();
      expect((await store.list()).messages).toEqual([]);
      expect(await rowCount(database(), names.message)).toBe(0);
      expect(await rowCount(database(), names.state)).toBe(0);
      expect(await store.add(messages(3))).toHaveLength(3);
      expect((await store.list()).messages).toHaveLength(3);
    });

    it("IBX-102 OBX-080 a message and its state are written together or not at all", async () => {
      const { store, names, clock } = await queue();
      await forbid(database(), names, "state", "insert", "attempt <> 0");
      // with a due time: on SQLite a message that is simply due has no state row yet
      const dueAt = clock();
      await expect(store.addOne({ topic: "t", payload: "", dueAt })).rejects.toThrow();
      await expect(store.add(messages(2, { dueAt }))).rejects.toThrow();
      expect(await rowCount(database(), names.message)).toBe(0);
      expect(await rowCount(database(), names.state)).toBe(0);
    });

    it("IBX-102 OBX-080 a batch is claimed whole or not at all", async () => {
      const { store, names, owner, clock, stored } = await queue();
      const dueAt = clock();
      await store.add(messages(3, { dueAt }));
      const { seq } = await stored(await store.addOne({ topic: "t", payload: "", dueAt }));
      const isSqlite = database().db.dialect.name === "sqlite";
      await forbid(
        database(),
        names,
        "state",
        "update",
        `seq <> ${seq} or ${isSqlite ? "new.owner" : "owner"} is null`,
      );
      await expect(store.claim({ owner })).rejects.toThrow();
      expect((await store.stats()).due).toBe(4);
      expect(await store.claim({ owner, batchSize: 3 })).toHaveLength(3);
    });

    it("IBX-102 OBX-080 a batch is settled whole or not at all", async () => {
      const { store, owner, names, held, clock, stored } = await queue();
      await store.abandon(owner, await held(1));
      clock.advance(10_000);
      await store.add(messages(2));
      const claimed = await store.claim({ owner });
      expect(claimed).toHaveLength(3);
      await forbid(database(), names, "state", "update", "attempt < 2");
      await expect(store.abandon(owner, claimed)).rejects.toThrow();
      for (const message of claimed) expect(await stored(message)).toEqual(message);
      expect((await store.ack(owner, claimed)).changed).toHaveLength(3);
    });

    it("IBX-102 OBX-080 OBX-101 claim, ack, abandon, fail, release, renew and reap are one round trip each", async () => {
      const { on, store, owner, clock } = await queue();
      await store.add(messages(60));
      const db = watched(database().db);
      const counted = on(db);
      const claimed = await counted.claim({ owner, batchSize: 50 });
      await counted.renew(owner, claimed, 30_000);
      await counted.ack(owner, claimed.slice(0, 10));
      await counted.abandon(owner, claimed.slice(10, 20), { error: "503" });
      await counted.fail(owner, claimed.slice(20, 30), "410");
      await counted.release(owner, claimed.slice(30, 40));
      clock.advance(60_000);
      await counted.reapExpired();
      expect(db.calls).toEqual(["claim", "renew", "ack", "abandon", "fail", "release", "reap"]);
    });
  });

  describe("isolation", () => {
    it("IBX-103 OBX-081 a claim does not see a message that another transaction has not committed", async (test) => {
      skipUnless(test, database(), "concurrentWriters");
      const { store, on, owner } = await queue();
      const committed = await store.add(messages(1));
      const caller = await database().begin();
      const uncommitted = await store.add(messages(1), { tx: caller.tx });
      const other = on(database().reopen());
      expect(ids(await other.claim({ owner }))).toEqual(ids(committed));
      await caller.commit();
      expect(ids(await other.claim({ owner }))).toEqual(ids(uncommitted));
    });

    it("IBX-103 OBX-081 a reader does not see a message before the commit", async (test) => {
      skipUnless(test, database(), "snapshotReads");
      const { store, on } = await queue();
      const caller = await database().begin();
      const [key] = await store.add(messages(1), { tx: caller.tx });
      const other = on(database().reopen());
      expect(await other.get(key!)).toBeNull();
      expect((await other.stats()).counts).toEqual(counts({}));
      await caller.commit();
      expect((await other.get(key!))?.state).toBe(states.waiting);
    });

    it("IBX-103 OBX-081 on a single connection a claim waits for the caller's transaction to end", async (test) => {
      test.skip(database().supports.severalConnections, "needs a single connection");
      const { store, owner } = await queue();
      const caller = await database().begin();
      await store.add(messages(1), { tx: caller.tx });
      let ended = false;
      const waiting = store.claim({ owner }).finally(() => {
        ended = true;
      });
      for (let tick = 0; tick < 50; tick++) await Promise.resolve();
      expect(ended).toBe(false);
      await caller.rollback();
      expect(await waiting).toEqual([]);
    });

    it("IBX-103 OBX-081 a transaction that began earlier and commits later is not missed", async (test) => {
      skipUnless(test, database(), "concurrentWriters");
      const { store, on, owner } = await queue();
      const slow = await database().begin();
      const early = await store.add(messages(1), { tx: slow.tx });
      const fast = on(database().reopen());
      const late = await fast.add(messages(1));
      const claimed = await fast.claim({ owner });
      expect(ids(claimed)).toEqual(ids(late));
      await fast.ack(owner, claimed);
      await slow.commit();
      expect(ids(await fast.claim({ owner }))).toEqual(ids(early));
    });

    it("IBX-103 OBX-081 a claim that is rolled back leaves the messages for others", async () => {
      const { store, on, owner } = await queue();
      const keys = await store.add(messages(3));
      const transaction = await database().begin();
      const inside = on(inTransaction(database().db, transaction.tx));
      expect(await inside.claim({ owner: newOwnerToken() })).toHaveLength(3);
      await transaction.rollback();
      const claimed = await store.claim({ owner });
      expect(ids(claimed)).toEqual(ids(keys));
      for (const message of claimed) expect(message).toMatchObject({ attempt: 0, owner });
    });
  });

  describe("many workers", () => {
    it("IBX-030 IBX-106 OBX-017 OBX-084 claims at the same moment never return the same message", async () => {
      const { store, on } = await queue();
      const keys = await store.add(messages(100));
      const claimers = Array.from({ length: 10 }, () => on(database().reopen()));
      const batches = await Promise.all(
        claimers.map((one) => one.claim({ owner: newOwnerToken(), batchSize: 20 })),
      );
      for (const batch of batches) {
        expect(batch.length).toBeLessThanOrEqual(20);
        expect(new Set(batch.map((message) => message.owner)).size).toBeLessThanOrEqual(1);
      }
      const rest = await claimAll(store, newOwnerToken());
      expect(ids([...batches.flat(), ...rest])).toEqual(ids(keys));
    });

    it("IBX-105 IBX-106 IBX-121 OBX-083 OBX-084 OBX-099 eight processes over 5,000 messages: each message is claimed once and acked once", async () => {
      const { store, on, names } = await queue();
      for (let n = 0; n < 5; n++) await store.add(messages(1_000));
      const claimed: AnyMessage[] = [];
      const acked: object[] = [];
      const work = async (one: QueueStore) => {
        const owner = newOwnerToken();
        for (;;) {
          const batch = await one.claim({ owner, batchSize: 100, leaseMs: 300_000 });
          if (batch.length === 0) return;
          expect(batch.every((message) => message.owner === owner)).toBe(true);
          claimed.push(...batch);
          acked.push(...(await one.ack(owner, batch)).changed);
        }
      };
      await Promise.all(Array.from({ length: 8 }, () => work(on(database().reopen()))));

      expect(claimed).toHaveLength(5_000);
      expect(new Set(ids(claimed)).size).toBe(5_000);
      expect(acked).toHaveLength(5_000);
      expect(new Set(ids(acked)).size).toBe(5_000);
      expect((await store.stats()).counts).toEqual(counts({ done: 5_000 }));
      expect(await rowCount(database(), `${names.state} where attempt > 0`)).toBe(0);
    });

    it("IBX-105 OBX-083 enqueue, claim, abandon, release and reap may all run at once: nothing is lost, nothing is doubled", async () => {
      const { on, store } = await queue({
        retry: { baseMs: 1, maxMs: 1, maxAttempts: 1_000 },
        realTime: true,
      });
      const done: string[] = [];
      const added: object[] = [];
      const produce = async (one: QueueStore) => {
        for (let n = 0; n < 20; n++) added.push(...(await one.add(messages(5))));
      };
      let producing = true;
      const consume = async (one: QueueStore, index: number) => {
        const owner = newOwnerToken();
        for (let round = 0; ; round++) {
          const isLast = !producing;
          const claimed = await one.claim({ owner, batchSize: 7, leaseMs: 300_000 });
          if (claimed.length === 0 && isLast && (await one.stats()).counts[states.waiting] === 0) return;
          const [first, second, ...rest] = claimed;
          if (first !== undefined && round % 3 === index % 3)
            await one.abandon(owner, [first], { delayMs: 1 });
          else if (first !== undefined) rest.push(first);
          if (second !== undefined && round % 4 === 0) await one.release(owner, [second]);
          else if (second !== undefined) rest.push(second);
          done.push(...ids((await one.ack(owner, rest)).changed));
          if (round % 5 === 0) await one.reapExpired();
        }
      };
      const producers = [1, 2].map(() => produce(on(database().reopen())));
      const consumers = [0, 1, 2, 3].map((index) => consume(on(database().reopen()), index));
      await Promise.all(producers);
      producing = false;
      await Promise.all(consumers);

      expect(done).toHaveLength(200);
      expect(done.sort()).toEqual(ids(added));
      expect((await store.stats()).counts).toEqual(counts({ done: 200 }));
    });

    it("IBX-106 OBX-084 a message whose lease was lost belongs only to its new owner", async () => {
      const { store, owner, held, clock, stored } = await queue();
      const lost = await held(1);
      clock.advance(60_000);
      const claims = await Promise.all(
        Array.from({ length: 3 }, () => store.claim({ owner: newOwnerToken() })),
      );
      expect(claims.flat()).toHaveLength(1);
      expect(await store.ack(owner, lost)).toEqual({ changed: [], lost, dead: [] });
      expect(await stored(lost[0]!)).toMatchObject({ state: states.held, owner: claims.flat()[0]!.owner });
    });
  });
}
