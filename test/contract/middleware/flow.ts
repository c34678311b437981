import { expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { permanentFailure } from "../../../src/dispatch/settlement.js";
import { InvalidArgumentError, InvalidOperationError, SchemaMissingError } from "../../../src/errors.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { startCleanup } from "../../../src/middleware/cleanup.js";
import { compose } from "../../../src/middleware/compose.js";
import { inbox, outbox } from "../../../src/middleware/inbox-outbox.js";
import { currentTransaction, publish, transaction } from "../../../src/middleware/transaction.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { attributesOf } from "../../../src/queue/attributes.js";
import type { OutboxMessage } from "../../../src/queue/message.js";
import type { ContractHarness } from "../harness.js";
import { inSchemaOf } from "../support/database.js";
import { gate } from "../support/gate.js";
import { describeShops, insertOrder, type Shop } from "./support.js";

interface Order {
  readonly messageId?: string;
}

const attributes = { version: 2, isTest: true, by: "2", none: null, lines: [{ sku: "a" }] };

/** Places an order with `currentTransaction`, and returns its event. */
const placeOrder = (shop: Shop, handled: string[]) => async (message: Order) => {
  handled.push(message.messageId!);
  await insertOrder(shop, currentTransaction(), message.messageId!);
  return { topic: "order.placed", data: { id: message.messageId }, attributes };
};

/** Places orders within all three middleware. */
const orderHandler = (shop: Shop, handled: string[]) =>
  compose<Order>([shop.transaction, shop.inboxOf("orders"), shop.outbox], placeOrder(shop, handled));

export function flowContract(harness: ContractHarness): void {
  describeShops(harness, "the flow of a message", ({ shop, database }) => {
    it("MID-02 MID-03 MID-06 MID-07 inbox row, order and event commit together, then the event is published", async () => {
      const made = await shop();
      const handled: string[] = [];
      const handle = orderHandler(made, handled);
      expect(await handle({ messageId: "abc-123" })).toBeUndefined(); // the outbox passes nothing on

      expect(await made.orders()).toEqual(["abc-123"]);
      expect(await made.inboxStore.get({ source: "orders", messageId: "abc-123" })).toMatchObject({
        state: "Done",
      });
      const published: OutboxMessage[] = [];
      const dispatcher = createDispatcher<OutboxMessage>({
        handlers: { "order.placed": (message) => void published.push(message) },
      });
      await dispatcher.run(made.outboxStore, timeBudget(10_000));
      expect(published).toMatchObject([
        { topic: "order.placed", payload: '{"id":"abc-123"}', headers: { version: "2", by: "2" } },
      ]);
      expect(attributesOf(published[0]!)).toEqual(attributes);
      expect((await made.outboxStore.stats()).counts).toMatchObject({ Done: 1, Ready: 0 });
    });

    it("MID-03 the same message again succeeds without output, and nothing is done twice", async () => {
      const made = await shop();
      const handled: string[] = [];
      const handle = orderHandler(made, handled);
      await handle({ messageId: "abc-123" });
      expect(await handle({ messageId: "abc-123" })).toBeUndefined();
      expect(await handle({ messageId: "ABC-123" })).toBeUndefined(); // another message: ids are case-sensitive

      expect(handled).toEqual(["abc-123", "ABC-123"]);
      expect(await made.outgoing()).toHaveLength(2);
    });

    it("MID-03 of many deliveries at the same time exactly one is handled", async () => {
      const made = await shop();
      const handled: string[] = [];
      const handle = orderHandler(made, handled);
      await Promise.all(Array.from({ length: 6 }, () => handle({ messageId: "once" })));
      expect(handled).toEqual(["once"]);
      expect(await made.orders()).toEqual(["once"]);
      expect(await made.outgoing()).toHaveLength(1);
    });

    it("MID-02 MID-08 an error rolls everything back, and the message can be handled later", async () => {
      const made = await shop();
      let broken = true;
      const handle = compose<Order>(
        [made.transaction, made.inboxOf("orders"), made.outbox],
        async (message) => {
          await insertOrder(made, currentTransaction(), message.messageId!);
          publish({ topic: "order.placed", payload: "published" });
          if (broken) throw new Error("the business says no");
        },
      );
      await expect(handle({ messageId: "m" })).rejects.toThrow("the business says no");
      expect(await made.orders()).toEqual([]);
      expect(await made.outgoing()).toEqual([]);
      expect(await made.inboxStore.get({ source: "orders", messageId: "m" })).toBeNull();

      broken = false;
      await handle({ messageId: "m" });
      expect(await made.orders()).toEqual(["m"]);
      expect(await made.outgoing()).toEqual(["published"]);
    });

    it("MID-02 ADD-12 a failure that the handler returns counts as thrown, and nothing is stored", async () => {
      const made = await shop();
      const failure = permanentFailure("the order was deleted");
      const handle = compose<Order>([made.transaction, made.inboxOf("orders")], async (message) => {
        await insertOrder(made, currentTransaction(), message.messageId!);
        return failure;
      });
      await expect(handle({ messageId: "m" })).rejects.toBe(failure);
      expect(await made.orders()).toEqual([]);
      expect(await made.inboxStore.get({ source: "orders", messageId: "m" })).toBeNull();
    });

    it("MID-08 an outgoing message that is refused rolls the order back", async () => {
      const made = await shop();
      const handle = compose<Order>(
        [made.transaction, made.inboxOf("orders"), made.outbox],
        async (message) => {
          await insertOrder(made, currentTransaction(), message.messageId!);
          return [{ topic: "ok", payload: "1" }, "not a message"];
        },
      );
      await expect(handle({ messageId: "m" })).rejects.toThrow(InvalidArgumentError);
      expect(await made.orders()).toEqual([]);
      expect(await made.inboxStore.get({ source: "orders", messageId: "m" })).toBeNull();
    });

    it("MID-08 a missing outbox table rolls the order back, and the error says what to do", async () => {
      const made = await shop();
      const absent = outbox({ ...inSchemaOf(database()), table: "NotThere" });
      const handle = compose<Order>([made.transaction, made.inboxOf("orders"), absent], async (message) => {
        await insertOrder(made, currentTransaction(), message.messageId!);
        return { topic: "order.placed", payload: "p" };
      });
      await expect(handle({ messageId: "m" })).rejects.toThrow(SchemaMissingError);
      expect(await made.orders()).toEqual([]);
      expect(await made.inboxStore.get({ source: "orders", messageId: "m" })).toBeNull();
    });

    it("MID-05 two subscribers each handle the message once", async () => {
      const made = await shop();
      const handled: string[] = [];
      for (const subscriber of ["billing", "shipping", "billing", "shipping"]) {
        const handle = compose<Order>([made.transaction, made.inboxOf(subscriber)], async () => {
          handled.push(subscriber);
        });
        await handle({ messageId: "m" });
      }
      expect(handled).toEqual(["billing", "shipping"]);
    });

    it("MID-06 returned and published messages are written in order", async () => {
      const made = await shop();
      const handle = compose<Order>([made.transaction, made.outbox], async () => {
        publish({ topic: "a", payload: "1" });
        await Promise.resolve();
        publish({ topic: "b", payload: "2" });
        return [
          { topic: "c", payload: "3" },
          { topic: "d", data: [4] },
        ];
      });
      await handle({});
      expect(await made.outgoing()).toEqual(["1", "2", "3", "[4]"]);
    });

    it("MID-06 ADD-18 a returned or published message with a natural key is written once, and the transaction commits", async () => {
      const made = await shop();
      const handle = compose<Order>([made.transaction, made.outbox], async () => {
        publish({ topic: "a", payload: "1", naturalKey: "7" }, { topic: "a", payload: "2" });
        return { topic: "a", data: 3, naturalKey: "7" };
      });
      await handle({});
      await handle({});
      expect(await made.outgoing()).toEqual(["1", "2", "2"]);
    });

    it("MID-07 without an outbox the handler's output is returned", async () => {
      const made = await shop();
      const plain = compose<Order>([made.transaction], async () => "output");
      expect(await plain({})).toBe("output");
      const deduplicated = compose<Order>([made.transaction, made.inboxOf("s")], async () => "output");
      expect(await deduplicated({ messageId: "m" })).toBe("output");
      expect(await deduplicated({ messageId: "m" })).toBeUndefined();
    });

    it("MID-02 MID-08 a transaction inside another on the same database is refused, because they could not commit together", async () => {
      const made = await shop();
      const inner = compose<Order>([made.transaction], async () =>
        insertOrder(made, currentTransaction(), "in"),
      );
      const outer = compose<Order>([made.transaction], async (message) => {
        await insertOrder(made, currentTransaction(), "out");
        await inner(message);
      });
      await expect(outer({})).rejects.toThrow(/already/);
      expect(await made.orders()).toEqual([]);
      await inner({});
      expect(await made.orders()).toEqual(["in"]);
    });

    it("MID-04 a message without an id is refused, and the error says what to add", async () => {
      const made = await shop();
      const handle = compose<Order>([made.transaction, made.inboxOf("s")], async () => {});
      for (const message of [{}, { messageId: "" }, null as unknown as Order])
        await expect(handle(message)).rejects.toThrow(/messageId/);
    });

    it("MID-02 work that a handler leaves running can neither write nor publish after the transaction", async () => {
      const made = await shop();
      const ended = gate();
      let late: Promise<unknown> | undefined;
      const handle = compose<Order>([made.transaction, made.outbox], async () => {
        const tx = currentTransaction();
        late = ended.promise.then(() => {
          expect(currentTransaction()).toBeUndefined();
          expect(() => publish({ topic: "t", payload: "" })).toThrow(InvalidOperationError);
          return insertOrder(made, tx, "late");
        });
        late.catch(() => {});
      });
      await handle({});
      ended.open();
      await expect(late).rejects.toThrow(/ended/);
      expect(await made.orders()).toEqual([]);
    });

    it("MID-01 only init creates the tables, a second init changes nothing, and odd names are quoted", async () => {
      const { db } = database();
      const named = inSchemaOf(database());
      const table = 'In"it ; drop';
      const made = [
        transaction(db),
        inbox({ subscriber: "s", ...named, table: `${table} in` }),
        outbox({ ...named, table: `${table} out` }),
      ];
      const handle = compose<Order>(made, async () => ({ topic: "t", payload: "p" }));
      await expect(handle({ messageId: "m" })).rejects.toThrow();
      await handle.init();
      await handle.init();
      await handle({ messageId: "m" });
      const store = createOutbox(db, { ...named, table: `${table} out` });
      expect((await store.list()).messages).toHaveLength(1);
    });

    it("MID-10 on a server clean-up runs at an interval, deletes only done messages after 7 days, continues after an error, and stops", async () => {
      const made = await shop();
      const handled: string[] = [];
      const handle = orderHandler(made, handled);
      for (const messageId of ["1", "2", "3"]) await handle({ messageId });
      const dispatcher = createDispatcher<OutboxMessage>({ handlers: { "order.placed": () => {} } });
      await dispatcher.run(made.outboxStore, timeBudget(30_000));
      await handle({ messageId: "4" }); // its event stays unpublished

      const { db } = database();
      let now = Date.now() + 6.9 * 86_400_000;
      const later = { clock: () => new Date(now), ...inSchemaOf(database()) };
      let rounds = 0;
      const failing = {
        id: "failing",
        purgeDone: async () => {
          rounds++;
          throw new Error("the database is away");
        },
      };
      const cleanup = startCleanup({
        stores: [
          failing,
          createInbox(db, { ...later, table: made.names.inbox }),
          createOutbox(db, { ...later, table: made.names.outbox }),
        ],
        intervalMs: 5,
        batchSize: 2,
      });
      const roundsFrom = async (from: number): Promise<void> => {
        while (rounds < from + 2) await new Promise(setImmediate); // a round that began after this call has ended
      };
      const left = async () => [
        (await made.inboxStore.stats()).counts.Done,
        (await made.outboxStore.stats()).counts,
      ];
      await roundsFrom(rounds);
      expect(await left()).toMatchObject([4, { Done: 3, Ready: 1 }]);
      now += 0.2 * 86_400_000;
      await roundsFrom(rounds);
      expect(await left()).toMatchObject([0, { Done: 0, Ready: 1 }]);

      await cleanup.stop();
      const before = rounds;
      await handle({ messageId: "5" });
      expect((await made.inboxStore.stats()).counts.Done).toBe(1);
      expect(rounds).toBe(before);
    });
  });
}
