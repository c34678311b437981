import type { Channel } from "amqplib";
import { type Database, statement } from "oncebox";
import { compose, currentTransaction, inbox, outbox, transaction } from "oncebox/middleware";

interface DeliveredOrder {
  readonly messageId: string;
  readonly body: string;
}

const insertOrder = statement("insert order", "insert into orders (id, body) values (:id, :body)");

/**
 * The order, the inbox row that makes a second delivery a duplicate, and the event for others are one commit on the database
 * that the order is written to. The delivery is acknowledged after it: a consumer that dies before leaves nothing behind, one
 * that dies between commit and acknowledgement gets the message again and skips it. The queue returns
 * refused messages after a delay: see README.md.
 */
export async function consumeOrders(channel: Channel, db: Database): Promise<void> {
  const placeOrder = compose<DeliveredOrder>(
    [transaction(db), inbox({ subscriber: "billing" }), outbox()],
    async ({ messageId, body }) => {
      await currentTransaction()!.query(insertOrder, { id: messageId, body });
      return { topic: "order.billed", data: { id: messageId }, attributes: { version: 1 } };
    },
  );
  await channel.prefetch(10); // transactions at once: no more than the pool has connections
  await channel.consume("billing.orders", async (delivery) => {
    if (delivery === null) return; // the queue was deleted
    const { messageId } = delivery.properties; // the sender's own: the message has no other id
    await placeOrder({ messageId, body: delivery.content.toString() }).then(
      () => channel.ack(delivery),
      () => channel.nack(delivery, false, false),
    );
  });
}
