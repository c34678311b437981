import { expect, it } from "vitest";
import { ArgumentRangeError } from "../../../src/errors.js";
import type { TestDatabase } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { key, partitionedQueue } from "./support.js";

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
