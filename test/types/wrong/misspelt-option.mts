import { defineApp } from "oncebox";

export default defineApp({
  handlers: {
    "order.placed": { timeout: 5_000, handle: () => {} },
  },
});
