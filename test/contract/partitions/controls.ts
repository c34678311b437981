import { expect, it } from "vitest";
import type { TestDatabase } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { key, partitionedQueue } from "./support.js";

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
