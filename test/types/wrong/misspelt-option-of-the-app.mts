import { defineApp } from "oncebox/app";

export default defineApp({
  handler: { "order.placed": () => {} },
});
