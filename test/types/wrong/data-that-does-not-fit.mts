import { defineApp } from "oncebox";
import { z } from "zod";

export default defineApp({
  topics: { "receipt.send": z.object({ invoice: z.string() }) },
  handlers: {
    "order.placed": { handle: () => ({ topic: "receipt.send", data: { invoice: 7 } }) },
  },
  publishers: { "receipt.send": ({ data }) => console.log(data.invoce) },
});
