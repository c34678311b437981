import { defineApp } from "oncebox";
import { z } from "zod";

export default defineApp({
  topics: { "receipt.send": z.object({ id: z.string() }) },
  handlers: ({ db }) => ({
    "order.placed": ({ messageId }) => ({ topic: "receipt.send", data: { id: messageId }, partitonKey: "x" }),
    "order.paid": { handle: async () => [{ topic: "receipt.send", data: { id: db.id }, naturalkey: "x" }] },
    "order.void": ({ messageId }) => ({ topic: "recept.send", data: { id: messageId } }),
  }),
});
