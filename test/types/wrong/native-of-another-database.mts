import { drizzle } from "drizzle-orm/node-postgres";
import { defineApp } from "oncebox";

export default defineApp.sqlserver({
  handlers: {
    "order.placed": {
      transactional: true,
      handle: async (_message, { tx }) => void (await drizzle(tx.native).execute("select 1")),
    },
  },
});
