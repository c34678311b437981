import type { Consumer } from "kafkajs";
import { consumeOnce, type InboxStore } from "oncebox/inbox-store";
import type { Handle, Order } from "./order.js";

/** kafkajs calls again after a failure, with its own back-off, and commits the offset after success. */
export async function consumeOrders(consumer: Consumer, store: InboxStore, handle: Handle): Promise<void> {
  const once = consumeOnce<Order>(store, { bus: "kafka", group: "billing", alias: "order.placed" }, handle);
  await consumer.subscribe({ topic: "orders" });
  await consumer.run({
    async eachMessage({ topic, partition, message }) {
      const messageId = `${topic}-${partition}-${message.offset}`; // counts when the sender sent no idempotency-key
      await once({ messageId, headers: message.headers, body: message.value?.toString() ?? "" });
    },
  });
}
