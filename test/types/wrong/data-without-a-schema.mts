import { defineApp } from "oncebox/app";

export default defineApp({
  handlers: { "order.placed": ({ data }) => console.log(data.id) },
});
