import type { Channel } from "amqplib";
import { type ConsumeOnceOptions, consumeOnce, type InboxStore } from "oncebox/inbox-store";
import type { Handle, Order } from "./order.js";

/** The queue has a dead-letter exchange, which returns messages after a delay: see README.md. */
export async function consumeOrders(
  channel: Channel,
  store: InboxStore,
  handle: Handle,
  limits: Pick<ConsumeOnceOptions, "leaseMs" | "timeoutMs"> = {},
): Promise<void> {
  const once = consumeOnce<Order>(
    store,
    { bus: "rabbitmq", group: "billing", alias: "order.placed", ...limits },
    handle,
  );
  await channel.prefetch(10); // handlers at once; one that hangs holds its place until its time limit
  await channel.consume("orders", async (delivery) => {
    if (delivery === null) return; // the queue was deleted
    const { messageId, headers } = delivery.properties;
    await once({ messageId, headers, body: delivery.content.toString() }).then(
      () => channel.ack(delivery),
      () => channel.nack(delivery, false, false),
    );
  });
}
