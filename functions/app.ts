/**
 * The example app, and the composition root of every function in this folder: who may send webhooks, what is done
 * with what they and a queue bring, and what is sent on. Replace it by your own.
 */
import { defineApp } from "../src/app/index.js";

export default defineApp({
  sources: {
    stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_WEBHOOK_SECRET" } },
  },
  handlers: ({ outbox }) => ({
    "payment.received": {
      transactional: true, // the receipt is enqueued if and only if the payment is acknowledged
      handle: ({ payload, messageId }, { tx }) =>
        outbox.enqueue(
          { topic: "receipt.send", payload, correlationId: messageId },
          tx === undefined ? {} : { tx },
        ),
    },
  }),
  // Messages of a queue that other services fill.
  consumer: {
    subscriber: "orders",
    handle: ({ messageId, payload }) => ({ topic: "receipt.send", payload, correlationId: messageId }),
  },
  publishers: {
    // Where a mail service would be called.
    "receipt.send": ({ correlationId }) => console.log(`sending the receipt of ${correlationId}`),
  },
});
