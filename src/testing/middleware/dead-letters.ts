import { expect, it } from "vitest";
import { timeBudget } from "../../base/budget.js";
import { createDispatcher } from "../../dispatch/dispatcher.js";
import { permanentFailure } from "../../dispatch/settlement.js";
import { compose } from "../../middleware/compose.js";
import { createConsume } from "../../middleware/consume.js";
import { currentTransaction } from "../../middleware/current-transaction.js";
import type { TriggerMessage } from "../../middleware/trigger-message.js";
import type { InboxMessage } from "../../queue/message.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import type { ContractHarness } from "../harness.js";
import { insertOrder, shopTheme } from "./support.js";

const message = (deliveries: number): TriggerMessage => ({
  messageId: "m",
  topic: "order",
  payload: "a very secret payload",
  headers: { a: "b" },
  correlationId: "c",
  partitionKey: null,
  deliveries,
});

export function deadLettersContract(harness: ContractHarness): void {
  shopTheme(harness, "poison messages", ({ shop }) => {
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
        handlers: { order: (replayed) => handle({ ...replayed, partitionKey: null }) },
      });
      await dispatcher.run(made.inboxStore, timeBudget(10_000));
      await dispatcher.run(made.inboxStore, timeBudget(10_000));
      await handle(message(2)); // the queue delivers it once more
      expect(await made.orders()).toEqual(["o"]);
      expect(await made.outgoing()).toEqual(["p"]);
      expect((await made.inboxStore.stats()).counts).toMatchObject({ Done: 1, Dead: 0, Processing: 0 });
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

    it("ADD-12 a permanent failure is dead at the first delivery; without dead letters the queue keeps it", async () => {
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
