/**
 * The example service, which the functions of messages in this folder run: it takes orders of the service `shop`, and tells it
 * when they are placed. Replace it by your own. A deployment has it only when it is asked for.
 */
import * as z from "zod/mini";
import { openDatabase } from "../src/index.js";
import { command, createService, defineMessages, type OpenService, signal } from "../src/messaging/index.js";

const messages = defineMessages({
  // From the shop, which gets a response.
  PlaceOrder: command(z.object({ item: z.string() }), z.object({ orderId: z.string() })),
  // To the shop.
  OrderPlaced: signal(z.object({ orderId: z.string(), item: z.string() })),
});

const open: OpenService = async ({ logger, database, secrets }) => {
  const orders = createService({
    serviceId: "orders",
    // For each instance: the database must allow the sum.
    db: await database((url) => openDatabase(url, { maxConnections: 2 })),
    messages,
    destinations: {
      shop: {
        address: process.env.SHOP_ADDRESS ?? "", // such as https://shop.example/_rf/receive
        secrets: await secrets("SHOP_SECRET"),
        endpoints: ["PlaceOrder"],
      },
    },
    receive: {
      // What it sends and the response are stored if and only if the message is recorded as handled.
      PlaceOrder: async ({ item }, { messageId: orderId }) => {
        await orders.send.OrderPlaced("shop", { orderId, item });
        return { orderId };
      },
    },
    admin: { tokens: () => secrets("MESSAGING_TOKENS") },
    handlerTimeoutMs: 20_000, // less than the receive function's time-out
    logger,
  });
  return orders;
};

export default open;
