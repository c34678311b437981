import type { Channel } from "amqplib";
import { consumeOnce, type InboxStore } from "oncebox/inbox-store";
import type { Handle, Order } from "./order.js";

/** The queue has a dead-letter exchange, which returns messages after a delay: see README.md. */
export async function consumeOrders(channel: Channel, store: InboxStore, handle: Handle): Promise<void> {
  const once = consumeOnce<Order>(
    store,
    { bus: "rabbitmq", group: "billing", alias: "order.placed" },
    handle,
  );
  await channel.consume("orders", async (delivery) => {
    if (delivery === null) return; // the queue was deleted
    const { messageId, headers } = delivery.properties;
    await once({ messageId, headers, body: delivery.content.toString() }).then(
      () => channel.ack(delivery),
      () => channel.nack(delivery, false, false),
    );
  });
}
