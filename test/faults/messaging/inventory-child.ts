/** The receiver: a message becomes a row. */
import type { Database } from "../../../src/index.js";
import { createService, type ReceiveContext } from "../../../src/messaging/index.js";
import { childSetup, secret } from "./child-setup.js";

const { settings, db, peer, point, insert, run } = childSetup("inventory", ["reservations"]);

/** The transactions in which a handler has run. */
const handled = new WeakSet<object>();

/** A point between the last statement of the handler's transaction and its commit. */
const watched: Database = {
  ...db,
  driver: {
    query: (...args) => db.driver.query(...args),
    transaction: (work, options) =>
      db.driver.transaction(async (tx) => {
        const result = await work(tx);
        if (handled.has(tx)) await point("before the commit");
        return result;
      }, options),
    close: () => db.driver.close(),
  },
};

async function reserve({ orderId }: { readonly orderId: string }, { tx }: ReceiveContext) {
  await insert(tx, "reservations", orderId);
  handled.add(tx);
  await point("in the handler");
  return { reservedFor: orderId };
}

const service = createService({
  ...settings,
  db: watched,
  destinations: { orders: { address: peer, secrets: [secret], endpoints: "*" } },
  receive: { ReserveStock: reserve },
});

await run(service);
