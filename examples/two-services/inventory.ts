/** The inventory service, a process of its own: `inventory.ts FILE ADDRESS`. */
import { setTimeout as pause } from "node:timers/promises";
import { createService, listen } from "oncebox/messaging";
import { openSqlite } from "oncebox/sqlite";
import { createInventoryTables, insertReservation, insertShipment, takeStock } from "./inventory-tables.js";
import { losingNetwork } from "./losing-network.js";
import { messages, secret } from "./messages.js";
import { print } from "./print.js";

const [file, address] = process.argv.slice(2);
const db = openSqlite({ file: file! });

const service = createService({
  serviceId: "inventory",
  db,
  messages,
  sources: { orders: { secrets: [secret], endpoints: ["ReserveStock", "OrderShipped"] } },
  receive: {
    // What a handler writes through `tx` commits together with the record that its message was handled, or not at all.
    ReserveStock: async ({ orderId, quantity }, { tx }) => {
      const [stock] = await tx.query(takeStock, { quantity });
      await tx.query(insertReservation, { orderId });
      print("inventory", `reserving for ${orderId} …`);
      process.send?.({ reserving: orderId });
      await pause(100); // so that there is a middle in which the process can be killed
      return { orderId, left: Number(stock!.quantity) };
    },
    OrderShipped: async ({ orderId }, { tx }) => {
      await tx.query(insertShipment, { orderId });
      print("inventory", `${orderId} has left the house`);
    },
  },
  logger: {
    debug() {},
    info() {},
    warn: (text) => print("inventory", text),
    error: (text, fields) => print("inventory", `${text}: ${fields?.error}`),
  },
});
await service.init();
await createInventoryTables(db);
service.start(); // deletes old records; it would also send what handlers send

const network = losingNetwork(service.receiver.fetch);
const listener = await listen({ address: address!, fetch: network.fetch });
process.on("message", network.loseNext);
process.on("disconnect", async () => {
  await listener.close();
  await service.close();
  await db.driver.close();
});
process.send?.({ address: listener.address });
