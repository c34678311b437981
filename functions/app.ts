/**
 * The example app, which every function in this folder runs: its webhook sources, the handlers of received messages, the
 * consumer of a queue and the publishers of outgoing messages. Replace it by your own.
 */
import { defineApp, env } from "../src/app/index.js";

export default defineApp({
  sources: {
    stripe: { secrets: env("STRIPE_WEBHOOK_SECRET") },
  },
  handlers: ({ outbox }) => ({
    "stripe.invoice.paid": {
      transactional: true, // the receipt is enqueued if and only if the payment is acknowledged
      handle: ({ payload, messageId }, { tx }) =>
        outbox.enqueue({ topic: "receipt.send", payload, correlationId: messageId }, { tx }),
    },
  }),
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
