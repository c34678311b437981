import { expect, it } from "vitest";
import type { TestDatabase } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { rowCount } from "../support/database.js";
import { key, partitionedQueue, tablesOfPartitions } from "./support.js";

export function deadInPartitionTests(database: () => TestDatabase): void {
  it.each(queueKinds)(
    "ADD-01 ADD-02 a dead head that blocks its key is never purged, and the others keep waiting (%s)",
    async (kind) => {
      const { put, claimed, ack, store, owner, stored, clock } = await partitionedQueue(database(), kind, {
        deadInPartition: "block",
      });
      await put(key("a1"), key("a2"), key("b1"), { name: "plain" });
      expect(await claimed()).toEqual(["a1", "b1", "plain"]);
      const dead = await Promise.all(["a1", "b1", "plain"].map(stored));
      await store.fail(owner, dead, "no");
      clock.advance(400 * 86_400_000);
      expect(await store.purgeDead({ retentionMs: 1 })).toMatchObject({ purged: 1, more: false });
      expect(await claimed()).toEqual([]);
      expect((await store.blockedPartitions()).map(({ partitionKey }) => partitionKey).sort()).toEqual([
        "a",
        "b",
      ]);
      await store.replay([await stored("a1")]);
      for (const name of ["a1", "a2"]) {
        expect(await claimed()).toEqual([name]);
        await ack(name);
      }
      await put(key("b2")); // b1 is still there, the only one of its key: it blocks what comes after it
      expect(await claimed()).toEqual([]);
      await store.discard([await stored("b1")], { by: "alice" });
      expect(await claimed()).toEqual(["b2"]);
    },
  );

  it.each(queueKinds)(
    "ADD-01 ADD-02 a message that expired behind its head is not purged, and blocks its key as the head (%s)",
    async (kind) => {
      const { put, claimed, ack, store, clock } = await partitionedQueue(database(), kind, {
        deadInPartition: "block",
      });
      await put(key("a1"), { ...key("a2"), expiresAt: new Date(clock().getTime() + 1_000) }, key("a3"));
      clock.advance(1_000);
      await store.reapExpired();
      clock.advance(86_400_000);
      expect(await store.purgeDead({ retentionMs: 1 })).toMatchObject({ purged: 0 });
      expect(await claimed()).toEqual(["a1"]);
      await ack("a1");
      expect(await claimed()).toEqual([]);
    },
  );

  it.each(queueKinds)(
    "ADD-01 ADD-02 a dead message that has left its partition queue is purged, and the others keep their order (%s)",
    async (kind) => {
      const { put, claimed, ack, store, owner, stored, clock, names } = await partitionedQueue(
        database(),
        kind,
      );
      await put(key("a1"), key("a2"), key("a3"));
      expect(await claimed()).toEqual(["a1"]);
      await store.fail(owner, [await stored("a1")], "no");
      expect(await claimed()).toEqual(["a2"]);
      await ack("a2");
      clock.advance(86_400_000);
      expect(await store.purgeDead({ retentionMs: 1 })).toMatchObject({ purged: 1 });
      expect(await claimed()).toEqual(["a3"]);
      await ack("a3");
      expect(await claimed()).toEqual([]);
      for (const table of tablesOfPartitions(names, database().db.dialect.name))
        expect(await rowCount(database(), table), table).toBe(0);
    },
  );

  it.each(queueKinds)(
    "ADD-01 after a head whose last attempt was abandoned or lost the next message is claimable (%s)",
    async (kind) => {
      const { put, claimed, store, owner, stored, clock } = await partitionedQueue(database(), kind, {
        retry: { maxAttempts: 1 },
      });
      await put(key("a1"), key("a2"), key("a3"), key("a4"));
      expect(await claimed()).toEqual(["a1"]);
      expect((await store.abandon(owner, [await stored("a1")])).dead).toHaveLength(1);
      expect(await claimed()).toEqual(["a2"]);
      clock.advance(120_000);
      expect(await claimed()).toEqual(["a3"]);
      expect((await stored("a2")).lastError).toMatch(/lease/i);
      clock.advance(30_001);
      expect(await store.reapExpired()).toMatchObject({ dead: 1 });
      expect(await claimed()).toEqual(["a4"]);
    },
  );

  it.each(queueKinds)(
    "ADD-01 after a head that expired, found by claim or reaper, the next message is claimable (%s)",
    async (kind) => {
      const { put, claimed, ack, store, clock } = await partitionedQueue(database(), kind);
      const expiresAt = new Date(clock().getTime() + 5_000);
      await put({ ...key("a1"), expiresAt }, key("a2"), { ...key("b1"), expiresAt }, key("b2"), key("b3"));
      clock.advance(5_000);
      expect(await claimed(1)).toHaveLength(1);
      await store.reapExpired();
      const rest = await claimed();
      const all = [...rest];
      for (const name of ["a2", "b2"]) if (!all.includes(name)) all.push(name);
      expect(all.sort()).toEqual(["a2", "b2"]);
      await ack("b2");
      expect(await claimed()).toEqual(["b3"]);
    },
  );

  it.each(queueKinds)(
    "ADD-01 a blocked message that expires is dead, and its partition queue continues without it (%s)",
    async (kind) => {
      const { put, claimed, ack, store, clock, stored } = await partitionedQueue(database(), kind);
      await put(key("a1"), { ...key("a2"), expiresAt: new Date(clock().getTime() + 5_000) }, key("a3"));
      expect(await claimed()).toEqual(["a1"]);
      clock.advance(5_000);
      expect(await store.reapExpired()).toMatchObject({ reaped: 0, dead: 1 });
      expect((await stored("a2")).state).toMatch(/Dead|Failed/);
      await ack("a1");
      expect(await claimed()).toEqual(["a3"]);
    },
  );

  it.each(queueKinds)(
    'ADD-01 with deadInPartition "block" the messages behind a dead head are blocked until it is replayed (%s)',
    async (kind) => {
      const { put, claimed, ack, store, owner, stored, clock } = await partitionedQueue(database(), kind, {
        deadInPartition: "block",
      });
      await put(key("a1"), key("a2"), key("b1"));
      expect(await claimed()).toEqual(["a1", "b1"]);
      await store.fail(owner, [await stored("a1")], "no");
      await ack("b1");
      clock.advance(600_000);
      expect(await claimed()).toEqual([]);
      await put(key("a3"));
      expect(await claimed()).toEqual([]);

      expect((await store.replay([await stored("a1")])).changed).toHaveLength(1);
      for (const name of ["a1", "a2", "a3"]) {
        expect(await claimed()).toEqual([name]);
        await ack(name);
      }
    },
  );

  it.each(queueKinds)(
    'ADD-01 after a change from "block" to "skip" the reaper makes blocked messages claimable (%s)',
    async (kind) => {
      const blocking = await partitionedQueue(database(), kind, { deadInPartition: "block" });
      const { put, claimed, store, owner, stored, ack } = blocking;
      await put(key("a1"), key("a2"), key("a3"), key("b1"), key("b2"));
      expect(await claimed()).toEqual(["a1", "b1"]);
      await store.fail(owner, [await stored("a1"), await stored("b1")], "no");
      await store.reapExpired();
      expect(await claimed()).toEqual([]); // the reaper of a store that blocks frees nothing

      await blocking.on(database().db, { deadInPartition: "skip" }).reapExpired();
      expect(await claimed()).toEqual(["a2", "b2"]);
      await ack("a2");
      expect(await claimed()).toEqual(["a3"]);
      expect((await stored("a1")).state).toMatch(/Dead|Failed/);
    },
  );

  it.each(queueKinds)('ADD-01 with deadInPartition "block" every way to die blocks (%s)', async (kind) => {
    const { put, claimed, store, owner, stored, clock } = await partitionedQueue(database(), kind, {
      deadInPartition: "block",
      retry: { maxAttempts: 1 },
    });
    const expiresAt = new Date(clock().getTime() + 500_000);
    const heads = ["a1", "b1", "c1", "d1"];
    await put(...heads.map(key), { ...key("e1"), expiresAt }, { ...key("f1"), expiresAt });
    await put(...["a2", "b2", "c2", "d2", "e2", "f2"].map(key));
    expect(await claimed(4)).toEqual(heads);
    await store.abandon(owner, [await stored("a1")]);
    await store.fail(owner, [await stored("b1")], "no");
    clock.advance(30_001);
    await store.reapExpired({ batchSize: 1, maxBatches: 1 });
    clock.advance(1_000_000);
    expect(await claimed(1)).toEqual([]);
    await store.reapExpired();
    expect(await claimed()).toEqual([]);
    for (const name of [...heads, "e1", "f1"]) expect((await stored(name)).state).toMatch(/Dead|Failed/);
  });

  it.each(queueKinds)(
    "ADD-01 a dead head that was skipped is put at the end of its partition queue when it is replayed (%s)",
    async (kind) => {
      const { put, claimed, ack, store, owner, stored } = await partitionedQueue(database(), kind);
      await put(key("a1"), key("a2"), key("a3"));
      expect(await claimed()).toEqual(["a1"]);
      await store.fail(owner, [await stored("a1")], "no");
      expect(await claimed()).toEqual(["a2"]);
      expect((await store.replay([await stored("a1")])).changed).toHaveLength(1);
      expect(await claimed()).toEqual([]);
      await ack("a2");
      expect(await claimed()).toEqual(["a3"]);
      await ack("a3");
      expect(await claimed()).toEqual(["a1"]);
      await ack("a1");
      expect((await store.stats()).counts.Done).toBe(3);
    },
  );

  it.each(queueKinds)(
    "ADD-01 the only message of its key is claimable at once when it is replayed after its death (%s)",
    async (kind) => {
      const { put, claimed, store, owner, stored } = await partitionedQueue(database(), kind);
      await put(key("a1"));
      expect(await claimed()).toEqual(["a1"]);
      await store.fail(owner, [await stored("a1")], "no");
      await store.replay([await stored("a1")]);
      expect(await claimed()).toEqual(["a1"]);
    },
  );

  it("ADD-01 a message that is marked by hand leaves its partition queue, dead or not", async () => {
    for (const deadInPartition of ["skip", "block"] as const) {
      const { put, claimed, ack, inbox, stored } = await partitionedQueue(database(), "inbox", {
        deadInPartition,
      });
      await put(key("a1"), key("a2"), key("a3"), key("a4"));
      await inbox.markProcessed({ source: "s", messageId: "a1" });
      expect(await claimed()).toEqual(["a2"]);
      await inbox.markDead({ source: "s", messageId: "a2" }, "by hand");
      expect(await claimed()).toEqual(deadInPartition === "skip" ? ["a3"] : []);
      await inbox.markProcessed({ source: "s", messageId: "a2" });
      if (deadInPartition === "block") expect(await claimed()).toEqual(["a3"]);
      await ack("a3");
      expect(await claimed()).toEqual(["a4"]);
      expect((await stored("a2")).state).toBe("Done");
    }
  });

  it("ADD-01 a dead message that a redelivery revives is in its partition queue again", async () => {
    for (const deadInPartition of ["skip", "block"] as const) {
      const { put, claimed, ack, store, owner, stored } = await partitionedQueue(database(), "inbox", {
        deadInPartition,
        deadOnRedelivery: "revive",
      });
      await put(key("a1"), key("a2"));
      expect(await claimed()).toEqual(["a1"]);
      await store.fail(owner, [await stored("a1")], "no");
      if (deadInPartition === "skip") expect(await claimed()).toEqual(["a2"]);
      await put({ name: "a1" }); // without its key: it keeps the one it has
      expect((await stored("a1")).partitionKey).toBe("a");
      expect(await claimed()).toEqual(deadInPartition === "skip" ? [] : ["a1"]);
      await ack(deadInPartition === "skip" ? "a2" : "a1");
      expect(await claimed()).toEqual([deadInPartition === "skip" ? "a1" : "a2"]);
    }
  });
}
