/** The order service. It stores an order and sends the command in one transaction. */
import { statement } from "oncebox";
import { createService } from "oncebox/messaging";
import { openSqlite } from "oncebox/sqlite";
import { messages, secret } from "./messages.js";
import { print } from "./print.js";

const createOrders = statement("create orders", "create table orders (id text, state text)");
const insertOrder = statement("insert order", "insert into orders values (:id, 'placed')");
const confirmOrder = statement("confirm order", "update orders set state = 'confirmed' where id = :id");
const countOrders = statement("count orders", "select count(*) as found from orders where state = :state");

export async function startOrders(file: string, inventory: string) {
  const db = openSqlite({ file });
  const service = createService({
    serviceId: "orders",
    db,
    messages,
    destinations: { inventory: { address: inventory, secrets: [secret] } },
    // Shorter than the defaults, so that the example does not take a minute.
    retry: { baseMs: 500 },
    breaker: { openMs: 1_000 },
    onResponse: {
      // Its statements and the record that the response was handled commit together.
      ReserveStock: async ({ orderId, left }, { tx }) => {
        await tx.query(confirmOrder, { id: orderId });
        print("orders", `response: ${orderId} is confirmed, ${left} left`);
      },
    },
    onDead: ({ endpoint }, { state, error }) => print("orders", `${endpoint} is ${state}: ${error}`),
  });
  await service.init();
  await db.driver.query(createOrders, {});
  service.start();

  return {
    async place(orderId: string): Promise<void> {
      await service.transaction(async (tx) => {
        await tx.query(insertOrder, { id: orderId });
        await service.send.ReserveStock("inventory", { orderId, quantity: 1 }, { tx });
        print("orders", `command: reserve 1 chair for ${orderId}`);
      });
    },
    async ship(orderId: string): Promise<void> {
      print("orders", `signal: ${orderId} was shipped`);
      await service.send.OrderShipped("inventory", { orderId });
    },
    async count(state: "placed" | "confirmed"): Promise<number> {
      const [row] = await db.driver.query(countOrders, { state });
      return Number(row!.found);
    },
    /** Messages that inventory has not acknowledged yet. */
    async unsent(): Promise<number> {
      const { counts } = await service.outboxStats();
      return counts.Pending + counts.Sending;
    },
    async close(): Promise<void> {
      await service.close();
      await db.driver.close();
    },
  };
}
