import { defineApp } from "oncebox/app";

export default defineApp({
  handlers: {
    "order.placed": { handle: () => 7 },
  },
});
