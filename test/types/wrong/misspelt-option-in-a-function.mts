import { defineApp } from "oncebox";

export default defineApp({
  handlers: ({ outbox }) => ({
    "order.placed": { timeout: 5_000, handle: async () => void (await outbox.stats()) },
  }),
});
