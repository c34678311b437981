/** The story: what happens between the two services, step by step. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startInventory } from "./inventory-process.js";
import { startOrders } from "./orders.js";
import { print } from "./print.js";
import { summarise } from "./summarise.js";

const folder = await mkdtemp(join(tmpdir(), "oncebox-two-services-"));
const files = { orders: join(folder, "orders.db"), inventory: join(folder, "inventory.db") };
let inventory = await startInventory(files.inventory);
const orders = await startOrders(files.orders, inventory.address);

/** Waits until so many orders are confirmed, and inventory has acknowledged everything. */
async function settled(confirmed: number): Promise<void> {
  for (let turn = 0; turn < 400; turn++) {
    if ((await orders.count("confirmed")) === confirmed && (await orders.unsent()) === 0) return;
    await pause(100);
  }
  throw new Error(`Not all of ${confirmed} orders were confirmed within 40 s.`);
}

console.log("\n1. A command and its response");
await orders.place("order-1");
await settled(1);

console.log("\n2. A signal");
await orders.ship("order-1");
await settled(1);

console.log("\n3. A duplicate: the acknowledgement is lost, so orders sends the command again");
inventory.loseNextAcknowledgement();
await orders.place("order-2");
await settled(2);

console.log("\n4. Inventory is killed in the middle of a reservation, and started again");
for (let order = 3; order <= 12; order++) await orders.place(`order-${order}`);
await inventory.reserving("order-5");
await inventory.kill();
print("inventory", "KILLED (SIGKILL)");
inventory = await startInventory(files.inventory, inventory.address);
print("inventory", "started again");
await settled(12);

await inventory.stop();
const isRight = await summarise(orders, files.inventory, { orders: 12, shipments: 1 });
await orders.close();
await rm(folder, { recursive: true });
process.exitCode = isRight ? 0 : 1;
