import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { type SqlExecutor, statement } from "../../../src/sql/driver.js";
import { skipUnless } from "../harness.js";
import { gate } from "../support/gate.js";
import { businessTable } from "./business-table.js";
import { messages, type QueueContext } from "./support.js";

const one = { topic: "t", payload: "" };

/** Enqueueing and settling in a transaction of the caller's. */
export function transactionTests(context: QueueContext): void {
  const { database, queue, ids, keyOf, counts, states } = context;
  const { business, withOrders, orders } = businessTable(context);

  describe("the caller's transaction", () => {
    it("OBX-003 ADD-06 the caller's commit makes the message claimable, together with the business row", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const key = await made.store.addOne(one, { tx: caller.tx });
      await caller.commit();
      expect(await orders(made)).toBe(1);
      expect(ids(await made.store.claim({ owner: made.owner }))).toEqual(ids([key]));
    });

    it("OBX-003 ADD-06 the caller's rollback leaves neither message nor business row", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const key = await made.store.addOne(one, { tx: caller.tx });
      const batch = await made.store.add(messages(3), { tx: caller.tx });
      await caller.rollback();
      expect(await orders(made)).toBe(0);
      expect(await made.store.claim({ owner: made.owner })).toEqual([]);
      for (const each of [key, ...batch]) expect(await made.store.get(each)).toBeNull();
    });

    it("OBX-003 ADD-06 neither commits nor rolls back: what the caller writes after enqueue is in the same transaction", async () => {
      const made = await withOrders();
      const first = await database().begin();
      await made.store.addOne(one, { tx: first.tx });
      await first.run(`insert into ${business(made)} (id) values (1)`);
      await first.rollback();
      expect(await orders(made)).toBe(0);

      const second = await database().begin();
      await made.store.addOne(one, { tx: second.tx });
      await second.run(`insert into ${business(made)} (id) values (2)`);
      await second.commit();
      expect(await orders(made)).toBe(1);
      expect((await made.store.stats()).counts).toEqual(counts({ waiting: 1 }));
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

    it("OBX-003 ADD-06 due time, expiry, headers and correlation id hold in a transaction as without", async () => {
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

    it("OBX-003 takes a transaction of the database's own driver: commit, and rollback by throwing", async () => {
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

    it("ADD-04 an ack in the caller's transaction counts with the commit and not without", async () => {
      const { store, owner, held, stored } = await queue();
      const [first, second] = await held(2);
      const kept = await database().begin();
      expect(ids((await store.ack(owner, [first!], { tx: kept.tx })).changed)).toEqual(ids([first!]));
      await kept.commit();
      const undone = await database().begin();
      expect(ids((await store.ack(owner, [second!], { tx: undone.tx })).changed)).toEqual(ids([second!]));
      await undone.rollback();
      expect((await stored(first!)).state).toBe(states.done);
      expect(await stored(second!)).toEqual(second);
    });

    it("ADD-04 ack and follow-up message commit together, by plain key too", async () => {
      const { store, owner, held, stored } = await queue();
      const [first, second] = await held(2);
      const followUp = await store.transaction(async (tx) => {
        expect((await store.ack(owner, [keyOf(first!)], { tx })).lost).toEqual([]);
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
}
