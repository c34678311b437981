import { expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import type { TestDatabase } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { columnOf, rowCount } from "../support/database.js";
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
      const { db, raw } = database();
      const rows = await raw(
        `select ${columnOf(db, "PartitionKey")} as k, state as s, status as phase from ${names.view} order by payload`,
      );
      expect(rows.map((row) => row.k)).toEqual(["a", "a", null]);
      expect(rows[1]).toMatchObject({ s: waiting, phase: "waiting" });
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
