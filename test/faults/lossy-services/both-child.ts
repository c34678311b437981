/** Both services in one process, with a transport between them that loses calls. It may be killed at any moment. */
import { inProcessTransport, type Transport, type TransportResponse } from "../../../src/messaging/index.js";
import { decideFault, inProcessFaults } from "../../support/lossy/decide-fault.js";
import { createLine, type Line } from "../../support/lossy/line.js";
import { type BothChildOptions, childOptions, openNotes, readNotes } from "./child-options.js";
import { createInventory, createOrders, placeOrders } from "./services.js";
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

/** Does to direct calls what the proxy does to requests. */
function lossyInProcess(inner: Transport, line: Line): Transport {
  return {
    ...inner,
    send: (message, destination) =>
      new Promise((resolve, reject) => {
        const noPart = () => Promise.reject(new Error("A direct call has no parts."));
        line.run<TransportResponse>({
          // a call that is on its way knows nothing of its sender, who may have given up
          forward: () => inner.send(message, destination, { signal: new AbortController().signal }),
          forwardPart: noPart,
          answer: resolve,
          answerPart: noPart,
          cut: () => reject(new Error("The call was cut off.")),
        });
      }),
  };
}
