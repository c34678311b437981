import { defineApp } from "oncebox";

export default defineApp({
  handlers: { "order.placed": (id: number) => void id },
});
