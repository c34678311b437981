import { createDispatcher, createInbox, createOutbox, createWorker, migrate } from "oncebox";
import { fromPg, openPostgres } from "oncebox/postgres";
import { createWebhookRoute, type WebhookRoute } from "oncebox/webhooks";
import { stripe } from "oncebox/webhooks/stripe";
import pg from "pg";

export interface Orders {
  /** Receives signed webhooks at `/webhooks/stripe`. */
  readonly route: WebhookRoute;
  /** Stores an order and enqueues a message about it: both, or neither. */
  place(id: string): Promise<void>;
  close(): Promise<void>;
}

export interface OrdersOptions {
  readonly url: string;
  readonly secret: string;
  readonly publish: (topic: string, payload: string) => unknown;
}

/** What every example serves. Only the file of the framework differs. */
export async function openOrders({ url, secret, publish }: OrdersOptions): Promise<Orders> {
  const pool = new pg.Pool({ connectionString: url });
  const db = openPostgres({ url });
  await migrate(db); // in a project of your own, when you deploy
  await pool.query("create table if not exists orders (id text primary key)");
  const inbox = createInbox(db);
  const outbox = createOutbox(db);

  const received = createDispatcher({
    store: inbox,
    handlers: {
      "stripe.charge.succeeded": {
        transactional: true,
        handle: ({ messageId }, { tx }) =>
          outbox.enqueue({ topic: "order.paid", payload: messageId }, { tx }),
      },
    },
    ignore: ["*"], // a provider sends more types than are handled
  });
  const sent = createDispatcher({
    store: outbox,
    handlers: { "*": ({ topic, payload }) => publish(topic, payload) },
  });
  const workers = [
    createWorker({ dispatcher: received, store: inbox }),
    createWorker({ dispatcher: sent, store: outbox }),
  ];

  async function place(id: string): Promise<void> {
    const client = await pool.connect();
    try {
      await client.query("begin");
      await client.query("insert into orders (id) values ($1)", [id]);
      await outbox.enqueue({ topic: "order.placed", payload: id }, { tx: fromPg(client) });
      await client.query("commit");
    } catch (error) {
      await client.query("rollback");
      throw error;
    } finally {
      client.release();
    }
  }

  return {
    route: createWebhookRoute({ inbox, sources: { stripe: { scheme: stripe, secrets: [secret] } } }),
    place,
    async close() {
      await Promise.all(workers.map((worker) => worker.stop()));
      await Promise.all([db.close(), pool.end()]);
    },
  };
}
