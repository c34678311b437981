import { setImmediate as nextTick } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  createDispatcher,
  createInbox,
  createOutbox,
  type Database,
  migrate,
  newOwnerToken,
  type SqlExecutor,
  statement,
  timeBudget,
} from "../../../src/index.js";
import {
  compose,
  currentNativeTransaction,
  inbox,
  outbox,
  transaction,
} from "../../../src/middleware/index.js";

/** A library with a table `orders (id integer primary key)` beside oncebox's own tables. */
export interface Orm<Native> {
  readonly db: Database;
  readonly schema?: string;
  /** The library's own transaction: commits when the work resolves, rolls back when it rejects. */
  transaction<T>(work: (native: Native) => Promise<T>): Promise<T>;
  /** With the library's own means. */
  insertOrder(native: Native, id: number): Promise<unknown>;
  countOrders(): Promise<number>;
  /** A statement that fails because the order 1 exists, and makes the database end the transaction. */
  readonly fatal: string;
  /** The library cannot roll back while a statement runs, and nothing can be bound to its end: docs/middleware.md says so. */
  readonly needsAwait?: boolean;
  adapt(native: Native): SqlExecutor;
  /** Something that is no transaction of the library's. */
  readonly outside: unknown;
  close(): Promise<void>;
}

const one = { topic: "t", payload: "p" };

/** What every library's transaction must do: commit, roll back, and carry the whole middleware. */
export function ormSuite<Native>(name: string, open: () => Promise<Orm<Native>>): void {
  describe(`${name}: the caller's transaction`, () => {
    const withOrm = async (work: (orm: Orm<Native>) => Promise<void>): Promise<void> => {
      const orm = await open();
      try {
        await migrate(orm.db, orm.schema === undefined ? {} : { schema: orm.schema });
        await work(orm);
      } finally {
        await orm.close();
      }
    };
    const storesOf = ({ db, schema }: Orm<Native>) => {
      const named = schema === undefined ? {} : { schema };
      return { outboxStore: createOutbox(db, named), inboxStore: createInbox(db, named), named };
    };

    it("ADD-06 OBX-003 order and message commit together, one and many", () =>
      withOrm(async (orm) => {
        const { outboxStore } = storesOf(orm);
        await orm.transaction(async (native) => {
          await orm.insertOrder(native, 1);
          const tx = orm.adapt(native);
          await outboxStore.enqueue(
            { topic: "t", payload: "it's ? $1 @p1 :x \\ ü", headers: { a: "b" } },
            { tx },
          );
          await outboxStore.enqueue(
            [1, 2].map((n) => ({ topic: "t", payload: `${n}`, dueAt: new Date(0) })),
            { tx },
          );
        });
        expect(await orm.countOrders()).toBe(1);
        const { messages } = await outboxStore.list();
        expect(messages.map((message) => message.payload)).toEqual(["it's ? $1 @p1 :x \\ ü", "1", "2"]);
        expect(messages[0]!.headers).toEqual({ a: "b" });
      }));

    it("ADD-06 OBX-003 neither is there after a rollback", () =>
      withOrm(async (orm) => {
        const { outboxStore } = storesOf(orm);
        const failed = orm.transaction(async (native) => {
          await orm.insertOrder(native, 1);
          await outboxStore.enqueue({ topic: "t", payload: "p" }, { tx: orm.adapt(native) });
          throw new Error("the business says no");
        });
        await expect(failed).rejects.toThrow("the business says no");
        expect(await orm.countOrders()).toBe(0);
        expect((await outboxStore.list()).messages).toEqual([]);
      }));

    it("ADD-06 OBX-003 nothing is stored on its own once the database has ended the transaction", () =>
      withOrm(async (orm) => {
        const { outboxStore } = storesOf(orm);
        const enqueued: string[] = [];
        const work = async (native: Native) => {
          await orm.insertOrder(native, 1);
          const tx = orm.adapt(native);
          await expect(tx.query(statement("fatal", orm.fatal), {})).rejects.toThrow();
          const note = (outcome: string) => void enqueued.push(outcome);
          for (const messages of [[one], [one, one]])
            await outboxStore.enqueue(messages, { tx }).then(
              () => note("stored"),
              () => note("refused"),
            );
        };
        // the library commits what it believes to be open, and some fail at that
        await orm.transaction(work).catch(() => {});
        expect(enqueued).toEqual(["refused", "refused"]);
        expect([await orm.countOrders(), (await outboxStore.list()).messages.length]).toEqual([0, 0]);
      }));

    it("ADD-06 OBX-003 calls that still run when the library rolls back leave nothing", (test) =>
      withOrm(async (orm) => {
        test.skip(orm.needsAwait === true, "the library cannot roll back while a statement runs");
        const { outboxStore } = storesOf(orm);
        for (let attempt = 0; attempt < 6; attempt++) {
          let pending: readonly Promise<unknown>[] = [];
          const failed = orm.transaction(async (native) => {
            await orm.insertOrder(native, attempt);
            const tx = orm.adapt(native);
            pending = [0, 1, 2].map(() => outboxStore.enqueue(one, { tx }));
            const all = Promise.all([...pending, Promise.reject(new Error("the business says no"))]);
            await all.catch(() => {});
            for (let ticks = 0; ticks < attempt; ticks++) await nextTick();
            throw new Error("the business says no");
          });
          await failed.catch(() => {}); // some libraries report that a statement still runs
          await Promise.allSettled(pending);
        }
        expect([await orm.countOrders(), (await outboxStore.list()).messages.length]).toEqual([0, 0]);
      }));

    it("ADD-06 MID-03 MID-06 the whole middleware runs in a transaction that the library opened", () =>
      withOrm(async (orm) => {
        const { inboxStore, outboxStore, named } = storesOf(orm);
        const handle = compose<{ messageId: string; fail?: boolean }>(
          [
            transaction(orm.db, {
              begin: (work) => orm.transaction((native) => work(orm.adapt(native), native)),
            }),
            inbox({ subscriber: "s", ...named }),
            outbox(named),
          ],
          async ({ messageId, fail }) => {
            await orm.insertOrder(currentNativeTransaction<Native>()!, Number(messageId));
            if (fail) throw new Error("the business says no");
            return { topic: "placed", data: { messageId } };
          },
        );
        await expect(handle({ messageId: "7", fail: true })).rejects.toThrow("the business says no");
        expect(await inboxStore.get({ source: "s", messageId: "7" })).toBeNull();
        await handle({ messageId: "7" });
        await handle({ messageId: "7" });
        expect(await orm.countOrders()).toBe(1);
        expect(await inboxStore.get({ source: "s", messageId: "7" })).toMatchObject({ state: "Done" });
        expect((await outboxStore.list()).messages).toMatchObject([{ payload: '{"messageId":"7"}' }]);
      }));

    it("ADD-04 ADD-06 a handler runs in a transaction that the library opened, and the acknowledgement is in it", () =>
      withOrm(async (orm) => {
        const { inboxStore, outboxStore } = storesOf(orm);
        for (const messageId of ["1", "2"])
          await inboxStore.receive({ source: "s", messageId, topic: "t", payload: messageId });
        let fails = true;
        const dispatcher = createDispatcher({
          store: inboxStore,
          concurrency: 1,
          logger: false,
          transaction: (work) => orm.transaction((native) => work(orm.adapt(native), native)),
          handlers: {
            t: {
              transactional: true,
              retry: { baseMs: 60_000, maxMs: 60_000 },
              async handle(message, { tx }) {
                await orm.insertOrder(tx, Number(message.messageId));
                const placed = { topic: "placed", payload: "", naturalKey: message.messageId };
                await outboxStore.enqueueOnce(placed, { tx: orm.adapt(tx) });
                if (fails && message.messageId === "2") throw new Error("the business says no");
              },
            },
          },
        });
        expect(await dispatcher.run(inboxStore, timeBudget(60_000))).toMatchObject({ acked: 1 });
        expect([await orm.countOrders(), (await outboxStore.list()).messages.length]).toEqual([1, 1]);
        fails = false;
        const { nextAttemptAt } = (await inboxStore.get({ source: "s", messageId: "2" }))!;
        const clock = () => new Date(nextAttemptAt.getTime() + 1_000);
        const later = createInbox(orm.db, { ...storesOf(orm).named, clock });
        expect(await dispatcher.run(later, timeBudget(60_000))).toMatchObject({ acked: 1, lost: 0 });
        expect([await orm.countOrders(), (await outboxStore.list()).messages.length]).toEqual([2, 2]);
        expect((await inboxStore.stats()).counts.Done).toBe(2);
      }));

    it("ADD-06 MID-01 a statement of the caller's own takes :name in it", () =>
      withOrm(async (orm) => {
        const orders = orm.schema === undefined ? "orders" : `${orm.schema}.orders`;
        const insert = statement("insert order", `insert into ${orders} (id) values (:orderId)`);
        const select = statement("select order", `select id from ${orders} where id = :orderId -- :no`);
        await orm.transaction(async (native) => {
          const tx = orm.adapt(native);
          expect(await tx.query(insert, { orderId: 7 })).toEqual([]);
          expect(await tx.query(select, { orderId: 7 })).toMatchObject([{ id: 7 }]);
        });
        expect(await orm.countOrders()).toBe(1);
      }));

    it("ADD-06 ADD-01 a message that is finished in it leaves its partition queue", () =>
      withOrm(async (orm) => {
        const { inboxStore } = storesOf(orm);
        const [first, second] = ["1", "2"].map((messageId) => ({ source: "s", messageId }));
        await inboxStore.enqueue(
          [first!, second!].map((key) => ({ ...key, topic: "t", payload: key.messageId, partitionKey: "k" })),
        );
        await orm.transaction((native) => inboxStore.markProcessed(first!, { tx: orm.adapt(native) }));
        const claimed = await inboxStore.claim({ owner: newOwnerToken() });
        expect(claimed.map((message) => message.messageId)).toEqual(["2"]);
      }));

    it("ADD-06 OBX-106 an error of the statement says neither payload nor values", () =>
      withOrm(async (orm) => {
        const absent = createOutbox(orm.db, { ...storesOf(orm).named, table: "NoSuchBox" });
        const failed = orm.transaction((native) =>
          absent.enqueue({ topic: "t", payload: "secret-payload-4711" }, { tx: orm.adapt(native) }),
        );
        const error: unknown = await failed.catch((caught: unknown) => caught);
        expect(error).toBeInstanceOf(Error);
        const { inspect } = await import("node:util");
        expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("secret-payload-4711");
      }));

    it("ADD-06 what is no transaction of the library's is refused", () =>
      withOrm(async (orm) => {
        expect(() => orm.adapt(orm.outside as Native)).toThrow(/takes the/);
        expect(() => orm.adapt(undefined as Native)).toThrow(/takes the/);
      }));
  });
}
