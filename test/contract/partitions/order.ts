import { expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { TestDatabase } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { isBabelfish } from "../support/database.js";
import { key, partitionedQueue } from "./support.js";

export function orderTests(database: () => TestDatabase): void {
  it.each(queueKinds)(
    "ADD-01 messages of one key come one at a time, in the order of enqueueing (%s)",
    async (kind) => {
      const { put, claimed, ack } = await partitionedQueue(database(), kind);
      await put(key("a1"), key("a2"));
      await put(key("a3"));
      for (const name of ["a1", "a2", "a3"]) {
        expect(await claimed()).toEqual([name]);
        expect(await claimed()).toEqual([]);
        await ack(name);
      }
      expect(await claimed()).toEqual([]);
    },
  );

  it.each(queueKinds)(
    "ADD-01 different keys come together, and so do messages without a key (%s)",
    async (kind) => {
      const { put, claimed, ack } = await partitionedQueue(database(), kind);
      await put(key("a1"), key("a2"), { name: "plain1" }, key("b1"), key("b2"), { name: "plain2" });
      expect(await claimed()).toEqual(["a1", "plain1", "b1", "plain2"]);
      await ack("b1", "plain1", "a1");
      expect(await claimed()).toEqual(["a2", "b2"]);
    },
  );

  it.each(queueKinds)("ADD-01 a head that waits for its retry blocks only its own key (%s)", async (kind) => {
    const { put, claimed, ack, store, owner, stored, clock } = await partitionedQueue(database(), kind);
    await put(key("a1"), key("a2"), key("b1"), key("b2"), { name: "plain" });
    expect(await claimed()).toEqual(["a1", "b1", "plain"]);
    await store.abandon(owner, [await stored("a1")], { delayMs: 10_000 });
    await ack("b1");
    expect(await claimed()).toEqual(["b2"]);
    clock.advance(10_000);
    expect(await claimed()).toEqual(["a1"]);
    expect(await stored("a1")).toMatchObject({ attempt: 1 });
    await ack("a1");
    expect(await claimed()).toEqual(["a2"]);
  });

  it.each(queueKinds)("ADD-01 a head that is not due yet blocks only its own key (%s)", async (kind) => {
    const { put, claimed, ack, clock } = await partitionedQueue(database(), kind);
    const dueAt = new Date(clock().getTime() + 5_000);
    await put({ ...key("a1"), dueAt }, key("a2"), key("b1"));
    expect(await claimed()).toEqual(["b1"]);
    clock.advance(5_000);
    expect(await claimed()).toEqual(["a1"]);
    await ack("a1");
    expect(await claimed()).toEqual(["a2"]);
  });

  it.each(queueKinds)(
    "ADD-01 a blocked message that is due later waits for its due time when it becomes the head (%s)",
    async (kind) => {
      const { put, claimed, ack, clock } = await partitionedQueue(database(), kind);
      await put(key("a1"), { ...key("a2"), dueAt: new Date(clock().getTime() + 5_000) }, key("a3"));
      expect(await claimed()).toEqual(["a1"]);
      await ack("a1");
      expect(await claimed()).toEqual([]);
      clock.advance(5_000);
      expect(await claimed()).toEqual(["a2"]);
    },
  );

  it.each(queueKinds)(
    "ADD-01 a head whose worker crashed is claimed again before the others of its key (%s)",
    async (kind) => {
      const { put, claimed, ack, stored, clock } = await partitionedQueue(database(), kind);
      await put(key("a1"), key("a2"), key("b1"));
      expect(await claimed()).toEqual(["a1", "b1"]);
      await ack("b1");
      clock.advance(29_999);
      expect(await claimed()).toEqual([]);
      clock.advance(60_000);
      expect(await claimed()).toEqual(["a1"]);
      expect(await stored("a1")).toMatchObject({ attempt: 1, crashes: 1 });
      await ack("a1");
      expect(await claimed()).toEqual(["a2"]);
    },
  );

  it.each(queueKinds)(
    "ADD-01 the reaper ends a crashed head's lease, and the head is claimed again (%s)",
    async (kind) => {
      const { put, claimed, ack, store, clock } = await partitionedQueue(database(), kind);
      await put(key("a1"), key("a2"));
      expect(await claimed()).toEqual(["a1"]);
      clock.advance(30_001);
      expect(await store.reapExpired()).toMatchObject({ reaped: 1, dead: 0 });
      clock.advance(60_000);
      expect(await claimed()).toEqual(["a1"]);
      await ack("a1");
      expect(await claimed()).toEqual(["a2"]);
    },
  );

  it.each(queueKinds)("ADD-01 a released head stays the head (%s)", async (kind) => {
    const { put, claimed, store, owner, stored } = await partitionedQueue(database(), kind);
    await put(key("a1"), key("a2"));
    expect(await claimed()).toEqual(["a1"]);
    await store.release(owner, [await stored("a1")]);
    expect(await claimed()).toEqual(["a1"]);
    expect(await stored("a1")).toMatchObject({ attempt: 0 });
  });

  it.each(queueKinds)("ADD-01 a key whose messages are finished can be used again (%s)", async (kind) => {
    const { put, claimed, ack } = await partitionedQueue(database(), kind);
    for (const name of ["a1", "a2", "a3"]) {
      await put(key(name));
      expect(await claimed()).toEqual([name]);
      await ack(name);
    }
  });

  it.each(queueKinds)(
    "ADD-01 concurrent claimers never hold two messages of a key, and get each key in its order (%s)",
    async (kind) => {
      const slow = await isBabelfish(database());
      const count = slow ? 120 : 2_000;
      const keyCount = slow ? 6 : 50;
      const made = await partitionedQueue(database(), kind);
      const names = Array.from({ length: count }, (_, index) => `k${index % keyCount}-${index}`);
      const keyOf = (name: string) => name.slice(0, name.indexOf("-"));
      for (let from = 0; from < count; from += 500)
        await made.put(...names.slice(from, from + 500).map((name) => ({ name, key: keyOf(name) })));

      const order = new Map<string, string[]>();
      const held = new Set<string>();
      let left = count;
      const work = async (seed: number): Promise<void> => {
        const owner = newOwnerToken();
        for (let round = seed; left > 0; round++) {
          const messages = await made.store.claim({ owner, leaseMs: 300_000, batchSize: 1 + (round % 9) });
          for (const { payload } of messages) {
            expect(held.has(keyOf(payload)), `${payload} while another of its key is held`).toBe(false);
            held.add(keyOf(payload));
            order.set(keyOf(payload), [...(order.get(keyOf(payload)) ?? []), payload]);
          }
          await new Promise((resolve) => setImmediate(resolve));
          // the claim of the next message may return before the ack does
          for (const { payload } of messages) held.delete(keyOf(payload));
          const { changed } = await made.store.ack(owner, messages);
          expect(changed).toHaveLength(messages.length);
          left -= changed.length;
        }
      };
      await Promise.all(Array.from({ length: 8 }, (_, seed) => work(seed)));
      for (const [group, seen] of order) expect(seen).toEqual(names.filter((name) => keyOf(name) === group));
      expect(order.size).toBe(keyCount);
    },
  );

  it.each(queueKinds)(
    "ADD-01 messages with and without keys, enqueued while workers claim, are all handled (%s)",
    async (kind) => {
      const slow = await isBabelfish(database());
      const rounds = slow ? 8 : 60;
      const { put, store } = await partitionedQueue(database(), kind);
      const names = (round: number) => [
        { name: `plain-${round}` },
        { name: `a-${round}`, key: "a" },
        { name: `b-${round}`, key: "b" },
        { name: `own-${round}`, key: `own-${round}` },
      ];
      const total = rounds * 4;
      const seen: string[] = [];
      const produce = async (): Promise<void> => {
        for (let round = 0; round < rounds; round++) await put(...names(round));
      };
      const consume = async (): Promise<void> => {
        const owner = newOwnerToken();
        while (seen.length < total) {
          const messages = await store.claim({ owner, leaseMs: 300_000, batchSize: 5 });
          seen.push(...messages.map(({ payload }) => payload));
          await store.ack(owner, messages);
        }
      };
      await Promise.all([produce(), consume(), consume(), consume()]);
      for (const one of ["a", "b"]) {
        const numbers = seen
          .filter((name) => name.startsWith(`${one}-`))
          .map((name) => Number(name.slice(2)));
        expect(numbers).toEqual(Array.from({ length: rounds }, (_, round) => round));
      }
      expect(new Set(seen).size).toBe(total);
    },
  );
}
