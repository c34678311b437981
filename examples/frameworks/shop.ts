import { type App, createApp, defineApp, env, statement } from "oncebox";

export interface Shop {
  readonly app: App;
  /** Stores an order and enqueues a message about it: both, or neither. */
  placeOrder(id: string): Promise<unknown>;
}

type Publish = (topic: string, payload: string) => void | Promise<void>;

const definition = (publish: Publish) =>
  defineApp({
    sources: { stripe: { secrets: env("STRIPE_WEBHOOK_SECRET") } },
    handlers: { "stripe.charge.succeeded": ({ messageId }) => ({ topic: "order.paid", payload: messageId }) },
    publishers: { "*": ({ topic, payload }) => publish(topic, payload) },
  });

const createOrders = statement("create orders", "create table if not exists orders (id text primary key)");
const insertOrder = statement("insert order", "insert into orders (id) values (:id)");

/** What every example serves. Only the file of the framework differs. The environment says where the database is. */
export async function openShop(publish: Publish): Promise<Shop> {
  const app = await createApp(definition(publish));
  await app.migrate(); // in a project of your own, when you deploy
  await app.db.driver.query(createOrders, {});
  await app.start(); // `await app.close()` when the server ends
  return {
    app,
    placeOrder: (id) =>
      app.db.driver.transaction(async (tx) => {
        await tx.query(insertOrder, { id });
        await app.outbox.enqueue({ topic: "order.placed", payload: id }, { tx });
      }),
  };
}
