import { expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { createDispatcher } from "../../../src/dispatch/dispatcher.js";
import { permanentFailure } from "../../../src/dispatch/settlement.js";
import { compose } from "../../../src/middleware/compose.js";
import { createConsume, type TriggerMessage, triggerMessage } from "../../../src/middleware/consume.js";
import { currentTransaction } from "../../../src/middleware/transaction.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { InboxMessage } from "../../../src/queue/message.js";
import type { ContractHarness } from "../harness.js";
import { describeShops, insertOrder } from "./support.js";

const message = (deliveries: number): TriggerMessage =>
  triggerMessage({
    messageId: "m",
    topic: "order",
    payload: "a very secret payload",
    headers: { a: "b" },
    correlationId: "c",
    partitionKey: null,
    deliveries,
  });

export function deadLettersContract(harness: ContractHarness): void {
  describeShops(harness, "poison messages", ({ shop }) => {
    it("MID-11 ADD-02 a message that fails at its last delivery is dead, with its error and content, and can be replayed", async () => {
      const made = await shop();
      const consume = createConsume(
        {
          handle: compose<TriggerMessage>([made.transaction, made.inboxOf("orders")], async ({ payload }) => {
            await insertOrder(made, currentTransaction(), "o");
            throw new Error(`cannot read ${payload}`);
          }),
          deadLetters: made.inboxStore,
          subscriber: "orders",
          maxDeliveries: 3,
        },
        "test",
      );
      const key = { source: "orders", messageId: "m" };
      expect(await consume(message(1))).toMatchObject({ end: "failed" });
      expect(await consume(message(2))).toMatchObject({ end: "failed" });
      expect(await made.inboxStore.get(key)).toBeNull();
      expect(await consume(message(3))).toEqual({ end: "dead" });
      expect(await made.orders()).toEqual([]);

      const dead = (await made.inboxStore.list({ state: "Dead" })).messages;
      expect(dead).toMatchObject([
        { ...key, topic: "order", payload: "a very secret payload", headers: { a: "b" }, correlationId: "c" },
      ]);
      expect(dead[0]!.lastError).toMatch(/cannot read \[payload\]/);
      await made.inboxStore.replay(dead);
      expect(await made.inboxStore.claim({ owner: newOwnerToken() })).toMatchObject([{ messageId: "m" }]);
    });

    it("MID-11 a payload that is not JSON is dead when data is read, and the error says so without quoting it", async () => {
      const made = await shop();
      const read: unknown[] = [];
      const handle = ({ data }: TriggerMessage) => void read.push(data);
      const consume = createConsume({ handle, deadLetters: made.inboxStore, subscriber: "orders" }, "test");
      expect(await consume(message(1))).toEqual({ end: "dead" });
      expect((await made.inboxStore.list({ state: "Dead" })).messages).toMatchObject([
        { lastError: 'PayloadNotJsonError: The payload of "order" is not JSON.' },
      ]);
      expect(await consume(triggerMessage({ ...message(1), payload: '{"id":7}' }))).toEqual({
        end: "handled",
      });
      expect(read).toEqual([{ id: 7 }]);
    });

    it("MID-11 ADD-02 a replayed dead letter is handled by the same composed handler, once", async () => {
      const made = await shop();
      let broken = true;
      const handle = compose<TriggerMessage>(
        [made.transaction, made.inboxOf("orders"), made.outbox],
        async () => {
          if (broken) throw permanentFailure("not now");
          await insertOrder(made, currentTransaction(), "o");
          return { topic: "placed", payload: "p" };
        },
      );
      await createConsume({ handle, deadLetters: made.inboxStore, subscriber: "orders" }, "test")(message(1));
      broken = false;
      await made.inboxStore.replay((await made.inboxStore.list({ state: "Dead" })).messages);
      const dispatcher = createDispatcher<InboxMessage>({
        handlers: {
          order: async (replayed) => void (await handle(triggerMessage({ ...replayed, partitionKey: null }))),
        },
      });
      await dispatcher.run(made.inboxStore, timeBudget(10_000));
      await dispatcher.run(made.inboxStore, timeBudget(10_000));
      await handle(message(2)); // the queue delivers it once more
      expect(await made.orders()).toEqual(["o"]);
      expect(await made.outgoing()).toEqual(["p"]);
      expect((await made.inboxStore.stats()).counts).toMatchObject({ Done: 1, Dead: 0, Processing: 0 });
    });

    it("MID-11 ADD-02 a poison message with fields that cannot be stored is dead with changed ones, and its headers have the originals", async () => {
      const made = await shop();
      const handle = compose<TriggerMessage>([made.transaction, made.inboxOf("orders")], async () => {
        throw permanentFailure("never");
      });
      const consume = createConsume(
        { handle, deadLetters: made.inboxStore, subscriber: "orders", maxDeliveries: 1 },
        "test",
      );
      const long = "x".repeat(300);
      const [nul, lone] = ["a\0b", "a\ud800b"];
      const given: readonly Partial<TriggerMessage>[] = [
        { messageId: nul },
        { messageId: lone },
        { messageId: "a\ud801b" },
        { messageId: long },
        { messageId: "" },
        { messageId: "ends with a space " },
        { messageId: "topic nul", topic: nul },
        { messageId: "topic long", topic: long },
        { messageId: "correlation", correlationId: `${nul}${lone}` },
        { messageId: "payload", payload: `p${lone}\0` },
        { messageId: "headers", headers: { a: 1 } as never, correlationId: 7 as never },
        { messageId: "header values", headers: { a: nul, b: lone } },
      ];
      for (const fields of given)
        expect(await consume({ ...message(1), ...fields }), JSON.stringify(fields)).toEqual({ end: "dead" });
      for (const fields of given)
        expect(await consume({ ...message(1), ...fields }), "the redelivery").toEqual({ end: "dead" });

      const dead = (await made.inboxStore.list({ state: "Dead" })).messages;
      expect(dead).toHaveLength(given.length);
      const originals = dead.flatMap(({ headers }) => {
        const original = headers?.["oncebox-original-message-id"];
        return original === undefined ? [] : [JSON.parse(original) as string];
      });
      expect(originals.sort()).toEqual(
        given
          .slice(0, 6)
          .map(({ messageId }) => messageId)
          .sort(),
      );
      const found = (id: string) => dead.find(({ messageId }) => messageId === id)!;
      expect(found("topic nul")).toMatchObject({
        topic: "a\uFFFDb\uFFFD",
        headers: { a: "b", "oncebox-original-topic": JSON.stringify(nul) },
      });
      expect(JSON.parse(found("topic long").headers!["oncebox-original-topic"]!)).toBe(long);
      expect(JSON.parse(found("payload").headers!["oncebox-original-payload"]!)).toBe(`p${lone}\0`);
      expect(found("payload").payload).toBe("pa\uFFFDb\0");
      expect(found("headers")).toMatchObject({
        correlationId: "7\uFFFD",
        headers: { "oncebox-original-headers": '{"a":1}', "oncebox-original-correlation-id": "7" },
      });
      expect(found("header values").headers).toEqual({ a: nul, b: lone });
      await made.inboxStore.replay(dead);
      expect(await made.inboxStore.claim({ owner: newOwnerToken() })).toHaveLength(given.length);
    });

    it("MID-11 a message whose dead letter cannot be written stays in the queue", async () => {
      const made = await shop();
      const away = {
        ...made.inboxStore,
        markDead: async () => {
          throw new Error("the database is away");
        },
      };
      const handle = () => {
        throw permanentFailure("never");
      };
      const consume = createConsume({ handle, deadLetters: away, subscriber: "s" }, "test");
      expect(await consume(message(1))).toMatchObject({
        end: "failed",
        error: { message: "the database is away" },
      });
    });

    it("ADD-12 a permanent failure is dead at the first delivery; without dead letters the message stays in the queue", async () => {
      const made = await shop();
      const handle = () => {
        throw permanentFailure("the order was deleted");
      };
      const consume = createConsume({ handle, deadLetters: made.inboxStore, subscriber: "s" }, "test");
      expect(await consume(message(1))).toEqual({ end: "dead" });
      expect(await made.inboxStore.get({ source: "s", messageId: "m" })).toMatchObject({ state: "Dead" });
      expect(await createConsume({ handle }, "test")(message(9))).toMatchObject({ end: "failed" });
    });
  });
}
