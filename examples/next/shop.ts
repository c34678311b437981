import { type App, createApp, defineApp, statement } from "oncebox";

const definition = defineApp({
  sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_WEBHOOK_SECRET" } } },
  handlers: ({ outbox }) => ({
    "charge.succeeded": {
      transactional: true,
      handle: ({ messageId }, { tx }) => outbox.enqueue({ topic: "order.paid", payload: messageId }, { tx }),
    },
  }),
  ignore: ["*"], // a provider sends more types than are handled
  publishers: { "*": ({ topic, payload }) => console.log(`published ${topic} ${payload}`) },
  cron: { tokens: { from: "env", name: "CRON_SECRET" }, timeMs: 50_000 }, // less than maxDuration
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
