import { defineApp } from "oncebox";

export default defineApp({
  handlers: {
    "order.placed": { handle: () => 7 },
  },
});
