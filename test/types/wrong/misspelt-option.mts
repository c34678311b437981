import { defineApp } from "oncebox/app";

export default defineApp({
  handlers: {
    "order.placed": { timeout: 5_000, handle: () => {} },
  },
});
