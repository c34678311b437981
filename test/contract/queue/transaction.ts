import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { type SqlExecutor, statement } from "../../../src/sql/driver.js";
import { skipUnless } from "../harness.js";
import { gate } from "../support/gate.js";
import { messages, type QueueContext, type TestQueue } from "./support.js";

const one = { topic: "t", payload: "" };

/** Turns of the event loop before the transaction ends: the calls are then queued, started or sent. */
const turnsBefore = [0, 1, 4];

/** Enqueueing and settling in the caller's transaction. */
export function transactionTests(context: QueueContext): void {
  const { database, queue, ids, keyOf, states } = context;
  const { business, withOrders, orders } = businessTable(context);
  const storedCount = async ({ store }: TestQueue) => (await store.list()).messages.length;

  describe("the caller's transaction", () => {
    it("IBX-103 OBX-003 OBX-081 ADD-06 the message becomes claimable with the caller's commit, together with what the caller wrote before and after", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const key = await made.store.addOne(one, { tx: caller.tx });
      await caller.run(`insert into ${business(made)} (id) values (2)`);
      await caller.commit();
      expect(await orders(made)).toBe(2);
      expect(ids(await made.store.claim({ owner: made.owner }))).toEqual(ids([key]));
    });

    it("IBX-103 OBX-003 OBX-081 ADD-06 the caller's rollback leaves neither messages nor business rows", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const key = await made.store.addOne(one, { tx: caller.tx });
      const batch = await made.store.add(messages(3), { tx: caller.tx });
      await caller.run(`insert into ${business(made)} (id) values (2)`);
      await caller.rollback();
      expect(await orders(made)).toBe(0);
      expect(await made.store.claim({ owner: made.owner })).toEqual([]);
      for (const each of [key, ...batch]) expect(await made.store.get(each)).toBeNull();
    });

    it("OBX-003 ADD-06 a batch is stored with the caller's commit, its keys in order", async () => {
      const { store, owner, stored } = await queue();
      const caller = await database().begin();
      const keys = await store.add(messages(100), { tx: caller.tx });
      await caller.commit();
      const claimed = await store.claim({ owner, batchSize: 100 });
      expect(ids(claimed)).toEqual(ids(keys));
      expect((await stored(keys[42]!)).payload).toBe("042");
    });

    it("OBX-003 ADD-06 due time, expiry, headers and correlation id are stored in a transaction as without one", async () => {
      const { store, owner, clock, stored } = await queue();
      const dueAt = new Date(clock().getTime() + 1_000);
      const expiresAt = new Date(clock().getTime() + 5_000);
      const message = {
        topic: "t",
        payload: "a\0b",
        dueAt,
        expiresAt,
        headers: { a: "b" },
        correlationId: "",
      };
      const caller = await database().begin();
      const key = await store.addOne(message, { tx: caller.tx });
      await caller.commit();
      expect(await stored(key)).toMatchObject({ ...message, correlationId: null, state: states.waiting });
      expect(await store.claim({ owner })).toEqual([]);
    });

    it("OBX-003 accepts a transaction of the database's own driver, which an error rolls back", async () => {
      const { store, owner } = await queue();
      const { driver } = database().db;
      const key = await driver.transaction((tx) => store.addOne(one, { tx }));
      const failed = driver.transaction(async (tx) => {
        await store.add(messages(2), { tx });
        throw new Error("the business says no");
      });
      await expect(failed).rejects.toThrow("the business says no");
      expect(ids(await store.claim({ owner }))).toEqual(ids([key]));
    });

    it("OBX-003 a refused message leaves the caller's transaction as it was", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const refused = made.store.addOne({ topic: "", payload: "" }, { tx: caller.tx });
      await expect(refused).rejects.toBeInstanceOf(InvalidArgumentError);
      const key = await made.store.addOne(one, { tx: caller.tx });
      await caller.commit();
      expect(await orders(made)).toBe(1);
      expect(ids(await made.store.claim({ owner: made.owner }))).toEqual(ids([key]));
    });

    it("OBX-003 an aborted signal refuses the enqueue and leaves the caller's transaction as it was", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const reason = new Error("the host is shutting down");
      const call = { tx: caller.tx, signal: AbortSignal.abort(reason) };
      await expect(made.store.addOne(one, call)).rejects.toBe(reason);
      await caller.commit();
      expect(await orders(made)).toBe(1);
      expect((await made.store.list()).messages).toEqual([]);
    });

    it("ADD-04 an ack in the caller's transaction commits or rolls back with it, by plain key too", async () => {
      const { store, owner, held, stored } = await queue();
      const claimed = await held(2);
      const mixed = [claimed[0]!, keyOf(claimed[1]!)];
      const undone = await database().begin();
      expect(ids((await store.ack(owner, mixed, { tx: undone.tx })).changed)).toEqual(ids(claimed));
      await undone.rollback();
      for (const message of claimed) expect(await stored(message)).toEqual(message);
      const kept = await database().begin();
      await store.ack(owner, mixed, { tx: kept.tx });
      await kept.commit();
      for (const message of claimed) expect((await stored(message)).state).toBe(states.done);
    });

    it("ADD-04 an ack and a follow-up message commit together", async () => {
      const { store, owner, held, stored } = await queue();
      const [first, second] = await held(2);
      const followUp = await store.transaction(async (tx) => {
        expect((await store.ack(owner, [first!], { tx })).lost).toEqual([]);
        return store.addOne({ topic: "follow.up", payload: "" }, { tx });
      });
      const failed = store.transaction(async (tx) => {
        await store.ack(owner, [second!], { tx });
        await store.addOne({ topic: "follow.up", payload: "" }, { tx });
        throw new Error("the business says no");
      });
      await expect(failed).rejects.toThrow("the business says no");
      expect((await stored(first!)).state).toBe(states.done);
      expect(await stored(second!)).toEqual(second);
      expect(ids(await store.claim({ owner }))).toEqual(ids([followUp]));
    });

    it("IBX-102 OBX-080 a transaction in which a statement failed rejects, or all of it is stored", async () => {
      const { store } = await queue();
      let key: object = {};
      const outcome = await store
        .transaction(async (tx) => {
          key = await store.addOne(one, { tx });
          const broken = { ...statement("broken", "select * from no_such_table"), unprepared: true };
          await tx.query(broken, {}).catch(() => {});
        })
        .then(
          () => "committed",
          () => "rolled back",
        );
      expect((await store.get(key)) === null).toBe(outcome === "rolled back");
    });

    it("OBX-003 a transaction that has ended takes no more messages", async () => {
      const { store } = await queue();
      let late: SqlExecutor | undefined;
      await store.transaction(async (tx) => {
        late = tx;
      });
      await expect(store.addOne(one, { tx: late! })).rejects.toThrow(/ended/i);
      const failed = store.transaction(async (tx) => {
        late = tx;
        throw new Error("the business says no");
      });
      await expect(failed).rejects.toThrow("the business says no");
      await expect(store.addOne(one, { tx: late! })).rejects.toThrow(/ended/i);
      expect((await store.list()).messages).toEqual([]);
    });

    it("work that was started inside a transaction may use the store after it", async () => {
      const { store } = await queue();
      const ended = gate();
      let afterwards: Promise<unknown> | undefined;
      await store.transaction(async () => {
        afterwards = ended.promise.then(() => store.stats());
      });
      ended.open();
      expect(await afterwards).toMatchObject({ due: 0 });
    });

    it("a closed database refuses calls, after the calls under way have ended", async (test) => {
      skipUnless(test, database(), "severalConnections");
      const { on } = await queue();
      const db = database().reopen();
      const store = on(db);
      const underWay = store.addOne(one);
      await db.driver.query(statement("opened", "select 1 as one"), {});
      await underWay;
      await db.close();
      await expect(store.stats()).rejects.toThrow(/closed/i);
      await db.close();
    });
  });

  describe("the caller's transaction has ended", () => {
    it.each([
      ["rollback", 0],
      ["commit", 1],
    ] as const)(
      "OBX-003 ADD-06 after a %s in a batch of the caller's, a message is refused rather than stored outside the transaction",
      async (end, kept) => {
        const made = await withOrders();
        const caller = await database().begin();
        await caller.run(`insert into ${business(made)} (id) values (1)`);
        await caller.run(end).catch(() => {}); // SQL Server reports that the batch ended the transaction
        await expect(made.store.addOne(one, { tx: caller.tx })).rejects.toThrow(/has ended/);
        await expect(made.store.add([one, one], { tx: caller.tx })).rejects.toThrow(/has ended/);
        await caller.rollback().catch(() => {}); // there is nothing to roll back
        expect([await orders(made), await storedCount(made)]).toEqual([kept, 0]);
      },
    );

    it("OBX-003 ADD-06 when a statement of the caller's fails, business row and message are both stored or both not", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      await expect(caller.run(`insert into ${business(made)} (id) values (null)`)).rejects.toThrow();
      const enqueued = await made.store.addOne(one, { tx: caller.tx }).then(
        () => true,
        () => false,
      );
      await (enqueued ? caller.commit() : caller.rollback());
      expect(await storedCount(made)).toBe(await orders(made));
    });

    it("OBX-003 ADD-06 calls that still run when the caller rolls back leave nothing", async () => {
      const made = await withOrders();
      for (const turns of turnsBefore) {
        const caller = await database().begin();
        const pending = [0, 1, 2].map(() => made.store.addOne(one, { tx: caller.tx }));
        const failed = Promise.all([...pending, Promise.reject(new Error("the business says no"))]);
        await expect(failed).rejects.toThrow("the business says no");
        for (let turn = 0; turn < turns; turn++) await nextTurn();
        await caller.rollback();
        await Promise.allSettled(pending);
      }
      expect(await storedCount(made)).toBe(0);
    });

    it("OBX-003 ADD-06 calls that still run when the caller commits are stored, or reject", async () => {
      const made = await withOrders();
      let resolved = 0;
      for (const turns of turnsBefore) {
        const caller = await database().begin();
        const pending = [0, 1, 2].map(() => made.store.addOne(one, { tx: caller.tx }));
        const settled = Promise.allSettled(pending);
        for (let turn = 0; turn < turns; turn++) await nextTurn();
        await caller.commit();
        resolved += (await settled).filter(({ status }) => status === "fulfilled").length;
      }
      expect(await storedCount(made)).toBe(resolved);
    });

    it("OBX-003 ADD-06 an aborted call has ended when it rejects: the caller can roll back at once", async (test) => {
      skipUnless(test, database(), "severalConnections");
      const made = await withOrders();
      for (const turns of turnsBefore) {
        const caller = await database().begin();
        await caller.run(`insert into ${business(made)} (id) values (1)`);
        const controller = new AbortController();
        const call = made.store.addOne(one, { tx: caller.tx, signal: controller.signal });
        const ended = call.catch(() => {});
        for (let turn = 0; turn < turns; turn++) await nextTurn();
        controller.abort(new Error("the host is shutting down"));
        await ended;
        await caller.rollback().catch((error: unknown) => {
          // A driver closes the connection of a server that does not answer a cancel in time, which rolls back too.
          if (!/Final state/.test(String(error))) throw error;
        });
      }
      expect([await orders(made), await storedCount(made)]).toEqual([0, 0]);
    });
  });
}

/** A table of the user's own beside the queue. */
function businessTable({ database, queue }: Pick<QueueContext, "database" | "queue">) {
  const business = ({ names }: TestQueue) => names.object("Orders");
  return {
    business,
    async withOrders(): Promise<TestQueue> {
      const made = await queue();
      await database().raw(`create table ${business(made)} (id int not null)`);
      return made;
    },
    orders: async (made: TestQueue) => (await database().raw(`select id from ${business(made)}`)).length,
  };
}
