import { createDispatcher, createInbox, createOutbox, defineApp } from "oncebox";
import { openSqlite } from "oncebox/sqlite";
import { z } from "zod";

const id = z.object({ id: z.string() });

export default defineApp({
  topics: { "receipt.send": id, "invoice.book": id },
  handlers: {
    "order.placed": ({ messageId }) => ({ topic: "receipt.send", data: { id: messageId }, partitonKey: "x" }),
    "order.paid": {
      schema: id,
      handle: async ({ data }) => [
        { topic: "receipt.send", data },
        { topic: "invoice.book", data, naturalkey: data.id },
      ],
    },
  },
});

export const untyped = defineApp({
  handlers: {
    "order.placed": ({ data }) => ({ topic: "receipt.send", data, dueDate: new Date() }),
    "order.paid": { transactional: true, handle: () => {} },
  },
});

const db = openSqlite({ file: "app.db" });
createDispatcher({
  store: createInbox(db),
  outbox: createOutbox(db),
  handlers: { "order.placed": ({ data }) => ({ topic: "receipt.send", data, header: {} }) },
});
