import { defineApp } from "oncebox";

export default defineApp({
  handlers: { "order.placed": ({ data }) => console.log(data.id) },
});
