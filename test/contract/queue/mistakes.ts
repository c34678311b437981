import { describe, expect, it } from "vitest";
import { InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import { skipUnless } from "../harness.js";
import type { AnyStore, NewMessage, QueueContext } from "./support.js";

const one = { topic: "t", payload: "" };

/** Mistakes that would silently lose a transaction, an order or a delay. */
export function mistakeTests({ database, queue, open }: QueueContext): void {
  type Adding = ReturnType<typeof open>;
  const adds = (store: Adding, message: object, call?: object) => [
    () => store.addOne(message as NewMessage, call as never),
    () => store.add([one, message as NewMessage], call as never),
  ];
  /** Each call is refused with such an error, and nothing is stored. */
  const refused = async (store: AnyStore, calls: readonly (() => Promise<unknown>)[], why: RegExp) => {
    for (const call of calls) {
      await expect(call()).rejects.toBeInstanceOf(InvalidArgumentError);
      await expect(call()).rejects.toThrow(why);
    }
    expect((await store.list()).messages).toEqual([]);
  };

  describe("mistakes", () => {
    it("OBX-003 ADD-06 an unknown option of a call, such as txn for tx, is refused by its name", async () => {
      const { store, owner } = await queue();
      const key = { source: "test", messageId: "m", id: "018f0000-0000-7000-8000-000000000000" };
      const wrong = { txn: {} } as never;
      await refused(
        store,
        [
          ...adds(store, one, wrong),
          () => store.claim({ owner, txn: {} } as never),
          () => store.ack(owner, [], wrong),
          () => store.abandon(owner, [], wrong),
          () => store.fail(owner, [], "error", wrong),
          () => store.release(owner, [], wrong),
          () => store.renew(owner, [], 1_000, wrong),
          () => store.get(key, wrong),
          () => store.attempts(key, wrong),
          () => store.stats(wrong),
          () => store.oldestDueAgeMs(wrong),
          () => store.reapExpired(wrong),
          () => store.purgeDone(wrong),
          () => store.purgeDead({ retentionMs: 86_400_000, txn: {} } as never),
          () => store.transaction(async () => {}, wrong),
        ],
        /unknown option txn/,
      );
    });

    it("OBX-003 ADD-06 a tx that is present and undefined is refused", async () => {
      const { store, owner } = await queue();
      const wrong = { tx: undefined } as never;
      const calls = [...adds(store, one, wrong), () => store.ack(owner, [], wrong)];
      await refused(store, calls, /tx is given and undefined/);
    });

    it("OBX-003 ADD-06 a driver's own object is refused as tx, with the adapter to use", async () => {
      const { store } = await queue();
      const caller = await database().begin();
      try {
        for (const [tx, instead] of [
          [caller.native, /fromPg|fromMssql|fromSqlite|db\.driver\.transaction/],
          [database().db.driver, /db\.driver\.transaction/],
          [{ query: async () => [] }, /tx must be a transaction/],
        ] as const)
          for (const call of adds(store, one, { tx })) await expect(call()).rejects.toThrow(instead);
      } finally {
        await caller.rollback();
      }
      expect((await store.list()).messages).toEqual([]);
    });

    it("OBX-003 ADD-06 a connection on which no transaction has begun is refused", async (test) => {
      skipUnless(test, database(), "severalConnections");
      const { store } = await queue();
      const { tx, rollback } = await database().begin("never");
      try {
        for (const call of adds(store, one, { tx })) {
          await expect(call()).rejects.toBeInstanceOf(InvalidOperationError);
          await expect(call()).rejects.toThrow(/never began/);
        }
      } finally {
        await rollback().catch(() => {}); // there is nothing to roll back
      }
      expect((await store.list()).messages).toEqual([]);
    });

    it("an unknown field of a message is refused by its name, singly and in a batch", async () => {
      const { store } = await queue();
      for (const field of ["partitonKey", "delay", "ttlMs"])
        await refused(store, adds(store, { ...one, [field]: "x" }), new RegExp(`unknown field ${field}`));
    });

    it("an unknown field of a filter is refused, because it would select every message", async () => {
      const { store } = await queue();
      const wrong = { topik: "t" } as never;
      await refused(store, [() => store.list(wrong)], /unknown option topik/);
    });
  });
}
