/**
 * The example app, which every function in this folder runs: its webhook sources, the handlers of received messages, the
 * consumer of a queue and the publishers of outgoing messages. Replace it by your own.
 */
import { defineApp, env } from "../src/index.js";

export default defineApp({
  sources: {
    stripe: { secrets: env("STRIPE_WEBHOOK_SECRET") },
  },
  handlers: {
    // What a handler returns is stored in the outbox if and only if the payment is acknowledged.
    "stripe.invoice.paid": ({ payload }) => ({ topic: "receipt.send", payload }),
  },
  // Handles messages of a queue that other services fill.
  consumer: {
    subscriber: "orders",
    handle: ({ messageId, payload }) => ({ topic: "receipt.send", payload, correlationId: messageId }),
  },
  publishers: {
    // A real app would call a mail service here.
    "receipt.send": ({ correlationId }) => console.log(`sending the receipt of ${correlationId}`),
  },
});
