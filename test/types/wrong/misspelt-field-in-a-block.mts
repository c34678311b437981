import { defineApp } from "oncebox";

export default defineApp({
  handlers: {
    "order.placed": {
      transactional: true,
      async handle({ data, attempt }) {
        if (attempt > 2) return;
        return { topic: "receipt.send", data, partitonKey: "x" };
      },
    },
  },
});
