/** Counts in both databases what was done. */
import { openSqlite } from "oncebox/sqlite";
import { countInventory, stockAtFirst } from "./inventory-tables.js";
import type { startOrders } from "./orders.js";

interface Expected {
  readonly orders: number;
  readonly shipments: number;
}

/** Returns whether each message was processed exactly once. */
export async function summarise(
  orders: Awaited<ReturnType<typeof startOrders>>,
  inventoryFile: string,
  expected: Expected,
): Promise<boolean> {
  const db = openSqlite({ file: inventoryFile });
  const [row] = await db.driver.query(countInventory, {});
  await db.driver.close();
  const found = {
    "orders confirmed": [await orders.count("confirmed"), expected.orders],
    "orders with a reservation": [Number(row!.orders), expected.orders],
    reservations: [Number(row!.reservations), expected.orders],
    shipments: [Number(row!.shipments), expected.shipments],
    "chairs left": [Number(row!.left), stockAtFirst - expected.orders],
  } as const;
  console.log("\nSummary");
  for (const [name, [is, should]] of Object.entries(found))
    console.log(`  ${name.padEnd(26)} ${String(is).padStart(3)} of ${should}`);
  const isRight = Object.values(found).every(([is, should]) => is === should);
  console.log(isRight ? "Each message was processed exactly once." : "SOMETHING WAS LOST OR DONE TWICE.");
  return isRight;
}
