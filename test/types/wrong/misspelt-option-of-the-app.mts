import { defineApp } from "oncebox";

export default defineApp({
  handler: { "order.placed": () => {} },
});
