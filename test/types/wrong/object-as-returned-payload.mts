import { defineApp } from "oncebox";

export default defineApp({
  handlers: {
    "order.placed": { handle: () => ({ topic: "receipt.send", payload: { invoice: "7" } }) },
  },
});
