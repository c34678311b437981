import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { createApp, defineApp } from "oncebox";
import { z } from "zod";

const invoices = pgTable("invoices", { id: text().primaryKey(), amount: integer() });
const invoice = z.object({ id: z.string(), amount: z.number().optional() });

const definition = defineApp.postgres({
  sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_SECRET" } } },
  topics: { "receipt.send": z.object({ invoice: z.string(), lines: z.array(z.string()).default([]) }) },
  handlers: {
    "invoice.paid": {
      schema: invoice,
      transactional: true,
      timeoutMs: 20_000,
      async handle({ data, source, attempt }, { tx, signal }) {
        signal.throwIfAborted();
        await drizzle(tx.native).insert(invoices).values({ id: data.id, amount: data.amount });
        const lines = [source, String(attempt)];
        return { topic: "receipt.send", data: { invoice: data.id, lines }, naturalKey: data.id };
      },
    },
    "invoice.void": ({ messageId }) => {
      if (messageId === "") return;
      return [{ topic: "receipt.send", data: { invoice: messageId } }];
    },
    "invoice.sent": { schema: invoice, handle: ({ data }) => console.log(data.id.length) },
    "customer.*": () => {},
  },
  publishers: { "receipt.send": ({ data, id }) => console.log(data.invoice, data.lines.length, id) },
});
export default definition;

export const inFunction = defineApp.postgres({
  topics: { "receipt.send": z.object({ invoice: z.string() }) },
  handlers: ({ outbox, db }) => ({
    "invoice.paid": {
      transactional: true,
      concurrency: 2,
      async handle({ messageId }, { tx }) {
        await outbox.enqueue({ topic: "receipt.send", data: { invoice: messageId } }, { tx });
        await db.driver.transaction(async ({ native }) => void (await native.query("select 1")));
      },
    },
    "receipt.send": ({ data }) => ({ topic: "receipt.send", data: { invoice: data.invoice } }),
  }),
});

export const app = await createApp(definition, {} as never);
