/** Both services in one process, with a transport between them that loses calls. It may be killed at any moment. */
import { inProcessTransport } from "../../../src/messaging/index.js";
import { decideFault } from "../../support/lossy/decide-fault.js";
import { createLine } from "../../support/lossy/line.js";
import { type BothChildOptions, childOptions } from "./child-options.js";
import { inProcessFaults, lossyInProcess } from "./lossy-in-process.js";
import { openNotes, readNotes } from "./notes.js";
import { placeOrders } from "./place-orders.js";
import { createInventory, createOrders } from "./services.js";
import { openTables } from "./tables.js";

const { places, orders: count, notes: file, seed } = childOptions<BothChildOptions>();
const notes = openNotes(file);
const starts = readNotes(file)("start");
notes.add("start");

const faultPlan = { seed: `${seed} ${starts}`, kinds: inProcessFaults }; // other faults after each start
const line = createLine(
  (index) => decideFault(faultPlan, index),
  1_000,
  (outcome) => notes.add("outcome", outcome),
);
const inProcess = inProcessTransport();
const shared = { transports: { own: [lossyInProcess(inProcess, line)] }, notes };
const tables = { orders: openTables(places.orders), inventory: openTables(places.inventory) };
const peer = { transport: "inprocess" } as const;
const orders = createOrders({ ...shared, peer, tables: tables.orders });
const inventory = createInventory({ ...shared, peer, tables: tables.inventory });
for (const service of [orders, inventory]) {
  inProcess.serve(service.serviceId, service.receiver);
  service.start();
}
process.stdout.write("ready inprocess\n");
await placeOrders(orders, tables.orders, count);
