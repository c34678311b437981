import { expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import type { TestDatabase } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { rowCount } from "../support/database.js";
import { key, partitionedQueue, tablesOfPartitions } from "./support.js";

export function keyTests(database: () => TestDatabase): void {
  it.each(queueKinds)("ADD-01 keys are case-sensitive, may be long and in any script (%s)", async (kind) => {
    const { put, claimed, ack, stored } = await partitionedQueue(database(), kind);
    const keys = [
      "Key",
      "key",
      "KEY",
      "ключ",
      "鍵🔑",
      "é",
      "e\u0301",
      "'; drop",
      "x".repeat(255),
      "ß".repeat(255),
    ];
    await put(
      ...keys.flatMap((one, index) => [
        { key: one, name: `${index}-1` },
        { key: one, name: `${index}-2` },
      ]),
    );
    const firsts = keys.map((_, index) => `${index}-1`);
    expect(await claimed()).toEqual(firsts);
    for (const [index, one] of keys.entries()) expect((await stored(`${index}-1`)).partitionKey).toBe(one);
    await ack(...firsts);
    expect(await claimed()).toEqual(keys.map((_, index) => `${index}-2`));
  });

  it.each(queueKinds)("ADD-01 an invalid key is refused (%s)", async (kind) => {
    const { put, store } = await partitionedQueue(database(), kind);
    for (const bad of ["", "a ", "x".repeat(256), "a\0b", "\ud800", 7 as unknown as string])
      await expect(put({ name: "m", key: bad })).rejects.toThrow(InvalidArgumentError);
    expect((await store.list()).messages).toEqual([]);
  });

  it("ADD-01 a deadInPartition that is neither skip nor block is refused", () => {
    const { db } = database();
    expect(() => createInbox(db, { deadInPartition: "wait" as "skip" })).toThrow(/deadInPartition/);
  });

  it.each(queueKinds)(
    "ADD-01 the claimed message, get, list, stats and the view have the key and the state (%s)",
    async (kind) => {
      const { put, store, owner, stored, names } = await partitionedQueue(database(), kind);
      await put(key("a1"), key("a2"), { name: "plain" });
      const claimed = await store.claim({ owner });
      expect(claimed.map(({ partitionKey }) => partitionKey)).toEqual(["a", null]);
      expect(await store.get(await stored("a2"))).toMatchObject({
        partitionKey: "a",
        lockedUntil: null,
        owner: null,
      });
      const waiting = kind === "inbox" ? "Processing" : "Ready";
      expect((await stored("a2")).state).toBe(waiting);
      const found = await store.list({ state: waiting });
      expect(found.messages.map(({ payload }) => payload)).toContain("a2");
      const { counts, due } = await store.stats();
      expect(counts[waiting]).toBe(kind === "inbox" ? 3 : 1);
      expect(due).toBe(0);
      const rows = await database().raw(
        `select PartitionKey as k, Status as s, Phase as phase from ${names.view} order by Payload`,
      );
      expect(rows.map((row) => row.k)).toEqual(["a", "a", null]);
      expect(rows[1]).toMatchObject({ s: kind === "inbox" ? "Processing" : 0, phase: "waiting" });
    },
  );

  it.each(queueKinds)(
    "ADD-01 nothing of a partition queue is left when its messages are finished (%s)",
    async (kind) => {
      const { put, claimed, ack, store, owner, stored, names } = await partitionedQueue(database(), kind);
      await put(key("a1"), key("a2"), key("b1"), { name: "plain" });
      expect(await claimed()).toEqual(["a1", "b1", "plain"]);
      await ack("a1", "plain");
      await store.fail(owner, [await stored("b1")], "no");
      expect(await claimed()).toEqual(["a2"]);
      await ack("a2");
      expect(await claimed()).toEqual([]);
      for (const table of tablesOfPartitions(names, database().db.dialect.name))
        expect(await rowCount(database(), table)).toBe(0);
    },
  );

  it.each(queueKinds)("ADD-01 a done message with a key is purged like any other (%s)", async (kind) => {
    const { put, claimed, ack, store, clock } = await partitionedQueue(database(), kind);
    await put(key("a1"), key("a2"));
    await claimed();
    await ack("a1");
    clock.advance(1_000);
    expect(await store.purgeDone({ retentionMs: 500 })).toMatchObject({ purged: 1 });
    expect(await claimed()).toEqual(["a2"]);
  });

  it("ADD-01 a redelivery changes neither the key nor the position", async () => {
    const { put, claimed, ack, stored } = await partitionedQueue(database(), "inbox");
    await put(key("a1"), key("a2"), key("a3"));
    await put({ name: "a2", key: "other" }, { name: "a2" }, key("a1"));
    expect(await claimed()).toEqual(["a1"]);
    await ack("a1");
    expect(await claimed()).toEqual(["a2"]);
    expect(await stored("a2")).toMatchObject({ partitionKey: "a", deliveries: 3 });
    await put(key("a1"), key("a2"));
    await ack("a2");
    expect(await claimed()).toEqual(["a3"]);
  });

  it("ADD-01 a message is put in its partition queue, received singly or in a batch", async () => {
    const { claimed, ack, inbox } = await partitionedQueue(database(), "inbox");
    const message = (messageId: string) => ({
      source: "s",
      messageId,
      topic: "t",
      payload: messageId,
      partitionKey: "a",
    });
    expect(await inbox.receive(message("1"))).toBe("enqueued");
    expect(await inbox.receive(message("2"))).toBe("enqueued");
    expect(await inbox.receive(message("2"))).toBe("duplicate");
    expect(await inbox.enqueue([message("3"), message("1"), message("4")])).toEqual([
      "enqueued",
      "duplicate",
      "enqueued",
    ]);
    for (const name of ["1", "2", "3", "4"]) {
      expect(await claimed()).toEqual([name]);
      await ack(name);
    }
  });

  it("ADD-01 a message that was only seen takes the key with which it is enqueued", async () => {
    const { put, claimed, ack, inbox } = await partitionedQueue(database(), "inbox");
    expect(await inbox.alreadyProcessed({ source: "s", messageId: "a2" })).toBe(false);
    await put(key("a1"));
    await put(key("a2"));
    expect(await claimed()).toEqual(["a1"]);
    await ack("a1");
    expect(await claimed()).toEqual(["a2"]);
  });
}

const by = { by: "alice" };

/** Pauses and limits keep the order of a partition key. */
export function partitionControlTests(database: () => TestDatabase): void {
  it.each(queueKinds)(
    "ADD-01 ADD-17 a paused head blocks its key, and the order is kept after the pause (%s)",
    async (kind) => {
      const { put, claimed, ack, store } = await partitionedQueue(database(), kind);
      await put(
        { ...key("a1"), topic: "mail" },
        key("a2"),
        key("b1"),
        { ...key("b2"), topic: "mail" },
        key("b3"),
      );
      await store.pause({ topic: "mail" }, by);
      expect(await claimed()).toEqual(["b1"]);
      await ack("b1");
      expect(await claimed()).toEqual([]); // b2 is the head now, and paused
      await put(key("a3"));
      expect(await claimed()).toEqual([]);
      expect((await store.stats()).phases.paused).toBe(2);
      expect(await store.blockedPartitions()).toMatchObject([
        { partitionKey: "a", reason: "paused", waiting: 2 },
        { partitionKey: "b", reason: "paused", waiting: 1 },
      ]);
      await store.resume({ topic: "mail" }, by);
      expect(await claimed()).toEqual(["a1", "b2"]);
      await ack("a1", "b2");
      expect(await claimed()).toEqual(["a2", "b3"]);
      await ack("a2");
      expect(await claimed()).toEqual(["a3"]);
    },
  );

  it.each(queueKinds)("ADD-01 ADD-17 a limit keeps the order of a key (%s)", async (kind) => {
    const { put, claimed, ack, store, clock } = await partitionedQueue(database(), kind);
    await store.limit({ topic: "t", perSecond: 0.5 }, by);
    await put(key("a1"), key("a2"), key("b1"));
    const order: string[] = [];
    for (let second = 0; second < 8 && order.length < 3; second += 2) {
      const names = await claimed();
      expect(names.length).toBeLessThanOrEqual(1);
      if (names.length > 0) await ack(...names);
      order.push(...names);
      clock.advance(2_000);
    }
    expect(order).toHaveLength(3);
    expect(order.indexOf("a1")).toBeLessThan(order.indexOf("a2"));
  });

  it.each(queueKinds)(
    "ADD-01 ADD-17 after a head that expires while it is paused the next message is claimable (%s)",
    async (kind) => {
      const { put, claimed, store, clock } = await partitionedQueue(database(), kind);
      const expiresAt = new Date(clock().getTime() + 1_000);
      await put({ ...key("a1"), topic: "mail", expiresAt }, key("a2"));
      await store.pause({ topic: "mail" }, by);
      expect(await claimed()).toEqual([]);
      clock.advance(2_000);
      expect((await store.reapExpired()).dead).toBe(1);
      expect(await claimed()).toEqual(["a2"]);
    },
  );
}

/** Which partition keys are blocked. */
export function blockedPartitionTests(database: () => TestDatabase): void {
  it.each(queueKinds)(
    "MSG-14 ADD-01 lists blocked partition keys with the reason, the time and the number of waiting messages (%s)",
    async (kind) => {
      const { put, claimed, store, owner, stored, clock } = await partitionedQueue(database(), kind, {
        deadInPartition: "block",
      });
      const arrived = clock();
      await put(...["a1", "a2", "b1", "b2", "b3", "c1", "c2", "d1", "e1"].map(key));
      await put({ name: "plain" }, { ...key("f1"), dueAt: new Date(arrived.getTime() + 60_000) }, key("f2"));
      clock.advance(1_000);
      expect([...(await claimed())].sort()).toEqual(["a1", "b1", "c1", "d1", "e1", "plain"]);
      clock.advance(1_000);
      const died = clock();
      await store.fail(owner, [await stored("a1"), await stored("e1")], "410");
      await store.abandon(owner, [await stored("b1")], { error: "503", delayMs: 5_000 });
      const found = await store.blockedPartitions();
      expect(found).toMatchObject([
        {
          partitionKey: "a",
          reason: "dead",
          waiting: 1,
          since: died,
          error: "410",
          nextAttemptAt: null,
          attempt: 1,
        },
        { partitionKey: "e", reason: "dead", waiting: 0, since: died, error: "410" },
        { partitionKey: "b", reason: "retrying", waiting: 2, since: arrived, error: "503", topic: "t" },
        { partitionKey: "c", reason: "leased", waiting: 1, since: arrived, error: null, attempt: 0 },
        { partitionKey: "f", reason: "scheduled", waiting: 1, since: arrived },
      ]);
      expect(found).toHaveLength(5);
      expect(found[2]!.nextAttemptAt).toEqual(new Date(died.getTime() + 5_000));
      expect(await store.get(found[0]!.head)).toMatchObject({ payload: "a1" });
      expect(await store.blockedPartitions({ limit: 1 })).toEqual(found.slice(0, 1));
      await expect(store.blockedPartitions({ limit: 1_001 })).rejects.toBeInstanceOf(ArgumentRangeError);
    },
  );

  it.each(queueKinds)(
    "MSG-14 ADD-01 ADD-02 an archived or discarded message leaves its partition queue, and the next one is claimable (%s)",
    async (kind) => {
      const { put, claimed, ack, store, owner, stored } = await partitionedQueue(database(), kind, {
        deadInPartition: "block",
      });
      for (const [action, name] of [
        ["archive", "a"],
        ["discard", "b"],
      ] as const) {
        await put(key(`${name}1`), key(`${name}2`), key(`${name}3`));
        expect(await claimed()).toEqual([`${name}1`]);
        await store.fail(owner, [await stored(`${name}1`)], "no");
        expect(await store.blockedPartitions()).toMatchObject([{ partitionKey: name, waiting: 2 }]);
        expect((await store[action]([await stored(`${name}1`)], { by: "alice" })).changed).toHaveLength(1);
        expect(await store.blockedPartitions()).toEqual([]);
        for (const next of [`${name}2`, `${name}3`]) {
          expect(await claimed()).toEqual([next]);
          await ack(next);
        }
      }
    },
  );

  it.each(queueKinds)(
    "MSG-14 ADD-01 ADD-17 counts messages with a partition key that no claim has seen yet, in a paused queue too (%s)",
    async (kind) => {
      const { put, claimed, ack, store, clock } = await partitionedQueue(database(), kind);
      await put(key("a1"));
      expect(await claimed()).toEqual(["a1"]);
      await store.pause("all", { by: "alice" });
      await put(
        key("a2"),
        { ...key("b1"), dueAt: new Date(clock().getTime() + 60_000) },
        key("b2"),
        key("b3"),
      );
      const unfinished = async () =>
        (await store.activity({ sinceMs: 60_000, buckets: 1 })).buckets[0]!.unfinished;
      expect(await unfinished()).toBe(5);
      expect(await store.blockedPartitions()).toMatchObject([
        { partitionKey: "b", reason: "paused", waiting: 2 },
        { partitionKey: "a", reason: "leased", waiting: 1 },
      ]);
      await ack("a1");
      expect(await unfinished()).toBe(4);
      expect(await store.blockedPartitions()).toMatchObject([{ partitionKey: "b", waiting: 2 }]);
    },
  );
}
