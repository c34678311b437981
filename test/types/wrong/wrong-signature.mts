import { defineApp } from "oncebox/app";

export default defineApp({
  handlers: { "order.placed": (id: number) => void id },
});
