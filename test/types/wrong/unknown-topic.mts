import { defineApp } from "oncebox";
import { z } from "zod";

export default defineApp({
  topics: { "receipt.send": z.object({ invoice: z.string() }) },
  handlers: {
    "order.placed": {
      handle: ({ messageId }) => ({ topic: "recept.send", data: { invoice: messageId } }),
    },
  },
});
