/** One of the two services, behind a listener. It may be killed at any moment and goes on when it is started again. */
import { listen } from "../../../src/messaging/index.js";
import { childOptions, givenAddress, openNotes, type ServiceChildOptions } from "./child-options.js";
import { createInventory, createOrders, placeOrders, type ServiceSetup } from "./services.js";
import { openTables } from "./tables.js";

const { service, place, peer, listenAt, orders: count, notes } = childOptions<ServiceChildOptions>();
const tables = openTables(place);
const secrets = [Buffer.from("a secret of both services").toString("base64")];
const setup: ServiceSetup = { tables, peer: { address: peer, secrets }, notes: openNotes(notes) };

const orders = service === "orders" ? createOrders(setup) : undefined;
const running = orders ?? createInventory(setup);
const listener = await listen({ address: givenAddress() || listenAt, receiver: running.receiver });
running.start();
process.stdout.write(`ready ${listener.address}\n`);
if (orders !== undefined) await placeOrders(orders, tables, count);
