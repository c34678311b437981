import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { skipUnless } from "../harness.js";
import { businessTable } from "./business-table.js";
import type { QueueContext, TestQueue } from "./support.js";

const one = { topic: "t", payload: "" };

/** Turns of the event loop before the transaction ends: the calls are then queued, started or sent. */
const turnsBefore = [0, 1, 4];

/** Calls in a transaction of the caller's that ends, or has ended. */
export function endedTransactionTests(context: QueueContext): void {
  const { database } = context;
  const { business, withOrders, orders } = businessTable(context);
  const stored = async ({ store }: TestQueue) => (await store.list()).messages.length;

  describe("the caller's transaction has ended", () => {
    it.each([
      ["rollback", 0],
      ["commit", 1],
    ] as const)(
      "OBX-003 ADD-06 after a %s inside a batch of the caller's, nothing is stored on its own",
      async (end, kept) => {
        const made = await withOrders();
        const caller = await database().begin();
        await caller.run(`insert into ${business(made)} (id) values (1)`);
        await caller.run(end).catch(() => {}); // SQL Server reports that the batch ended the transaction
        await expect(made.store.addOne(one, { tx: caller.tx })).rejects.toThrow(/has ended/);
        await expect(made.store.add([one, one], { tx: caller.tx })).rejects.toThrow(/has ended/);
        await caller.rollback().catch(() => {}); // there is nothing to roll back
        expect([await orders(made), await stored(made)]).toEqual([kept, 0]);
      },
    );

    it("OBX-003 ADD-06 a statement of the caller's fails, and order and message share their fate", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      await expect(caller.run(`insert into ${business(made)} (id) values (null)`)).rejects.toThrow();
      const enqueued = await made.store.addOne(one, { tx: caller.tx }).then(
        () => true,
        () => false,
      );
      await (enqueued ? caller.commit() : caller.rollback());
      expect(await stored(made)).toBe(await orders(made));
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
      expect(await stored(made)).toBe(0);
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
      expect(await stored(made)).toBe(resolved);
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
      expect([await orders(made), await stored(made)]).toEqual([0, 0]);
    });
  });
}
