import { defineApp } from "oncebox";

export default defineApp({
  handlers: ({ outbox }) => ({
    "order.placed": async ({ data }, { tx }) => {
      await outbox.enqueue({ topic: "receipt.send", data }, { tx });
    },
  }),
});
