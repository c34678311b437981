import { setTimeout as pause } from "node:timers/promises";
import { correlationOf } from "./orders.js";
import type { createOrders } from "./services.js";
import type { Tables } from "./tables.js";

/** Places orders, from the one after the last that was committed. Pauses between them make the run last. */
export async function placeOrders(
  orders: ReturnType<typeof createOrders>,
  tables: Tables,
  { count, pauseMs }: { readonly count: number; readonly pauseMs: number },
): Promise<void> {
  for (let order = (await tables.lastOrder()) + 1; order <= count; order++) {
    const correlationId = correlationOf(order);
    await orders.transaction(async (tx) => {
      await tables.enter(tx, { what: "placed", order, correlation: correlationId });
      await orders.send.OrderApproved("inventory", { order }, { tx, correlationId });
      await orders.send.ReserveStock("inventory", { order }, { tx, correlationId });
    });
    await pause(pauseMs);
  }
}
