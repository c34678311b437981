import { setTimeout as pause } from "node:timers/promises";
import { correlationOf } from "./orders.js";
import type { createOrders } from "./services.js";
import type { Tables } from "./tables.js";

/** Orders that may be on their way at once. A longer backlog would only be put off, again and again, by the circuit breaker. */
const mostUnderWay = 100;
const pauseMs = 20;

/** Places orders, from the one after the last that was committed, as fast as responses come in. */
export async function placeOrders(
  orders: ReturnType<typeof createOrders>,
  tables: Tables,
  count: number,
): Promise<void> {
  let placed = await tables.lastOrder();
  let responses = (await tables.count()) - placed;
  while (placed < count) {
    if (placed - responses >= mostUnderWay) {
      await pause(pauseMs);
      responses = (await tables.count()) - placed;
      continue;
    }
    const order = placed + 1;
    const correlationId = correlationOf(order);
    await orders.transaction(async (tx) => {
      await tables.enter(tx, { what: "placed", order, correlation: correlationId });
      await orders.send.OrderApproved("inventory", { order }, { tx, correlationId });
      await orders.send.ReserveStock("inventory", { order }, { tx, correlationId });
    });
    placed = order;
  }
}
