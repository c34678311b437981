import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgSchema, text } from "drizzle-orm/pg-core";
import { defineApp } from "../../../src/app/definition.js";

const { TEST_SCHEMA: schema = "test" } = process.env;
const effects = pgSchema(schema).table("effects", {
  message: text().notNull(),
  process: integer().notNull(),
});

/** Writes with its author's own library in the transaction of the acknowledgement. The first attempt at "late" fails after its write. */
export default defineApp.postgres({
  schema,
  inbox: { retry: { baseMs: 1, maxMs: 1 } },
  handlers: {
    "order.placed": {
      transactional: true,
      async handle({ messageId, attempt }, { tx }) {
        const row = { message: `${messageId} by attempt ${attempt}`, process: process.pid };
        await drizzle(tx.native).insert(effects).values(row);
        if (messageId === "late" && attempt === 0) throw new Error("the business says no");
        return { topic: "order.ship", data: { messageId } };
      },
    },
  },
});
