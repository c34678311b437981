import { expect, it } from "vitest";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { type AnyMessage, testBudget } from "../dispatch/support.js";
import { skipUnless, type TestDatabase } from "../harness.js";
import { queueKinds } from "../queue/set-up.js";
import { isBabelfish } from "../support/database.js";
import { key, partitionedQueue } from "./support.js";

/** Partition queues and the caller's transactions. */
export function transactionTests(database: () => TestDatabase): void {
  it("ADD-01 a message that a transaction enqueues is put in its partition queue by the commit", async () => {
    const { put, putIn, claimed, ack } = await partitionedQueue(database(), "outbox");
    await put(key("a1"));
    const caller = await database().begin();
    await putIn(caller.tx, key("a2"), key("b1"), { name: "plain" });
    await putIn(caller.tx, key("a3"));
    await caller.commit();
    expect(await claimed()).toEqual(["a1", "b1", "plain"]);
    for (const name of ["a1", "a2", "a3"]) {
      await ack(name);
      expect(await claimed()).toEqual(name === "a1" ? ["a2"] : name === "a2" ? ["a3"] : []);
    }
  });

  it("ADD-01 an open transaction that enqueued does not hold up acks and claims of the same keys", async (test) => {
    skipUnless(test, database(), "concurrentWriters");
    const { put, putIn, claimed, ack, store, owner, stored } = await partitionedQueue(database(), "outbox");
    await put(key("a1"), key("a2"), key("b1"), key("b2"), key("c1"));
    expect(await claimed()).toEqual(["a1", "b1", "c1"]);
    const caller = await database().begin();
    await putIn(caller.tx, key("a3"), key("c2"), key("d1"));

    await ack("a1", "c1");
    expect(await claimed()).toEqual(["a2"]);
    await store.fail(owner, [await stored("b1")], "no");
    expect(await claimed()).toEqual(["b2"]);
    await put(key("e1"));
    expect(await claimed()).toEqual(["e1"]);
    await ack("a2");
    expect(await claimed()).toEqual([]);
    await caller.commit();
    expect(await claimed()).toEqual(["a3", "c2", "d1"]);
  });

  it("ADD-01 a message that is received and marked as processed in one transaction is not in its partition queue", async () => {
    const { inbox, put, claimed } = await partitionedQueue(database(), "inbox");
    const message = { source: "s", messageId: "a1", topic: "t", payload: "a1", partitionKey: "a" };
    const caller = await database().begin();
    expect(await inbox.receive(message, { tx: caller.tx })).toBe("enqueued");
    expect(await inbox.markProcessed(message, { tx: caller.tx })).toBe(true);
    await caller.commit();
    await put(key("a2"));
    expect(await claimed()).toEqual(["a2"]);
  });

  it("ADD-01 an open transaction that received the same message again does not hold up its ack", async (test) => {
    // SQLite has one writer at a time, and SQL Server locks the rows that it may change.
    test.skip(database().db.dialect.name !== "postgres", "needs PostgreSQL's row versions");
    const { inbox, put, claimed, ack } = await partitionedQueue(database(), "inbox");
    await put(key("a1"), key("a2"));
    expect(await claimed()).toEqual(["a1"]);
    const stored = (await inbox.list()).messages;
    const caller = await database().begin();
    for (const { source, messageId, topic, payload } of stored) {
      const again = { source, messageId, topic, payload, partitionKey: "a" };
      expect(await inbox.receive(again, { tx: caller.tx })).toBe("duplicate");
    }
    await ack("a1");
    expect(await claimed()).toEqual(["a2"]);
    await caller.commit();
  });

  it("ADD-01 a transaction that is rolled back leaves its partition queues as they were", async () => {
    const { put, putIn, claimed, ack } = await partitionedQueue(database(), "outbox");
    await put(key("a1"));
    const caller = await database().begin();
    await putIn(caller.tx, key("a2"), key("b1"));
    await caller.rollback();
    await put(key("a3"), key("b2"));
    expect(await claimed()).toEqual(["a1", "b2"]);
    await ack("a1");
    expect(await claimed()).toEqual(["a3"]);
  });

  it("ADD-01 the messages of the transaction that commits first come first", async (test) => {
    skipUnless(test, database(), "concurrentWriters");
    const { putIn, claimed, ack } = await partitionedQueue(database(), "outbox");
    const first = await database().begin();
    const second = await database().begin();
    await putIn(first.tx, key("a1"));
    // Either it waits for the first transaction to end, or its commit puts the message behind.
    const enqueued = putIn(second.tx, key("a2"));
    await first.commit();
    await enqueued;
    await second.commit();
    expect(await claimed()).toEqual(["a1"]);
    await ack("a1");
    expect(await claimed()).toEqual(["a2"]);
  });

  it("ADD-01 under repeatable read a message is put in its partition queue, or its transaction fails", async (test) => {
    test.skip(database().db.dialect.name !== "postgres", "needs PostgreSQL's repeatable read");
    const { put, putIn, claimed, ack } = await partitionedQueue(database(), "outbox");
    await put(key("a1"), key("b1"), key("b2"));
    expect(await claimed()).toEqual(["a1", "b1"]);
    const caller = await database().begin();
    await caller.run("set transaction isolation level repeatable read");
    await putIn(caller.tx, key("a2"), key("b3")); // from here on it sees a1 and b1 as heads
    await ack("a1", "b1");
    await caller.commit();
    expect(await claimed()).toEqual(["b2", "a2"]);
    await ack("b2");
    expect(await claimed()).toEqual(["b3"]);

    const late = await database().begin();
    await late.run("set transaction isolation level repeatable read");
    await putIn(late.tx, key("b4"));
    await put(key("b5"));
    await expect(late.commit()).rejects.toMatchObject({ code: "40001" });
    await ack("b3");
    expect(await claimed()).toEqual(["b5"]);
  });

  it("ADD-01 transactions that enqueue for the same keys in any order all commit, and every message is handled", async () => {
    const { db } = database();
    const { store, outbox } = await partitionedQueue(database(), "outbox");
    const perProducer = (await isBabelfish(database())) ? 3 : 40;
    const keys = ["a", "b", "c", "d"];
    const total = 3 * perProducer * keys.length;
    const seen: string[] = [];
    const produce = async (producer: number): Promise<void> => {
      for (let round = 0; round < perProducer; round++) {
        const order = producer === 0 ? keys : producer === 1 ? keys.toReversed() : ["c", "a", "d", "b"];
        const messages = order.map((one) => ({
          topic: "t",
          payload: `${one}-${producer}-${round}`,
          partitionKey: one,
        }));
        await store.transaction(async (tx) => {
          // Where keys are locked at once, one call locks them in their own order; PostgreSQL does so at the commit.
          if (db.dialect.name !== "postgres") await outbox.enqueue(messages, { tx });
          else for (const message of messages) await outbox.enqueue(message, { tx });
        });
      }
    };
    const consume = async (): Promise<void> => {
      const owner = newOwnerToken();
      while (seen.length < total) {
        const messages = await store.claim({ owner, leaseMs: 300_000, batchSize: 3 });
        seen.push(...messages.map(({ payload }) => payload));
        await store.ack(owner, messages);
      }
    };
    await Promise.all([produce(0), produce(1), produce(2), consume(), consume()]);
    expect(new Set(seen).size).toBe(total);
    for (const one of keys) {
      for (const producer of [0, 1, 2]) {
        const own = seen.filter((name) => name.startsWith(`${one}-${producer}-`));
        expect(own.map((name) => Number(name.slice(4)))).toEqual(
          Array.from({ length: perProducer }, (_, round) => round),
        );
      }
    }
  });

  it.each(queueKinds)(
    "ADD-01 an ack that is rolled back leaves the next message blocked (%s)",
    async (kind) => {
      const { put, claimed, ack, store, owner, stored } = await partitionedQueue(database(), kind);
      await put(key("a1"), key("a2"));
      expect(await claimed()).toEqual(["a1"]);
      const head = await stored("a1");
      await expect(
        store.transaction(async (tx) => {
          expect((await store.ack(owner, [head], { tx })).changed).toHaveLength(1);
          throw new Error("changed my mind");
        }),
      ).rejects.toThrow("changed my mind");
      expect(await claimed()).toEqual([]);
      await store.transaction((tx) => store.ack(owner, [head], { tx }));
      expect(await claimed()).toEqual(["a2"]);
      await ack("a2");
    },
  );

  it.each(queueKinds)(
    "ADD-01 one run of a dispatcher handles a whole partition queue, one at a time and in order (%s)",
    async (kind) => {
      const { put, store } = await partitionedQueue(database(), kind, { retry: { maxAttempts: 1 } });
      const names = ["a", "b"].flatMap((one) =>
        Array.from({ length: 12 }, (_, index) => `${one}${100 + index}`),
      );
      await put(...names.map(key), { name: "plain" });
      const order: string[] = [];
      const running = new Set<string>();
      const dispatcher = createDispatcher<AnyMessage, unknown>({
        concurrency: 5,
        handlers: {
          t: async ({ payload, partitionKey }) => {
            order.push(payload);
            if (partitionKey === null) return;
            expect(running.has(partitionKey)).toBe(false);
            running.add(partitionKey);
            await new Promise((resolve) => setImmediate(resolve));
            running.delete(partitionKey);
            if (payload === "a105") throw new Error("the partition queue continues without it");
          },
        },
      });
      const result = await dispatcher.run(store, testBudget());
      expect(result).toMatchObject({ acked: 24, stopped: "drained", lost: 0 });
      for (const one of ["a", "b"])
        expect(order.filter((name) => name.startsWith(one) && name !== "plain")).toEqual(
          names.filter((name) => name.startsWith(one)),
        );
    },
  );
}
