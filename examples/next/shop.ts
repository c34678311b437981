import { type App, createApp, defineApp, env, statement } from "oncebox";

const definition = defineApp({
  sources: { stripe: { secrets: env("STRIPE_WEBHOOK_SECRET") } },
  handlers: { "stripe.charge.succeeded": ({ messageId }) => ({ topic: "order.paid", payload: messageId }) },
  publishers: { "*": ({ topic, payload }) => console.log(`published ${topic} ${payload}`) },
  cron: { tokens: env("CRON_SECRET"), timeMs: 50_000 }, // less than maxDuration
});

let opened: Promise<App> | undefined;
/** Made by the first request: while Next builds, there are no secrets. */
export const app = (): Promise<App> => {
  opened ??= createApp(definition);
  return opened;
};

const insertOrder = statement("insert order", "insert into orders (id) values (:id)");

/** Stores an order and enqueues a message about it: both, or neither. */
export async function placeOrder(id: string): Promise<void> {
  const { db, outbox } = await app();
  await db.driver.transaction(async (tx) => {
    await tx.query(insertOrder, { id });
    await outbox.enqueue({ topic: "order.placed", payload: id }, { tx });
  });
}
