/** Listens on the address of its argument, says so, and responds to every message until it is killed. */
import { listen } from "../../../src/messaging/transports/listen.js";
import { receiverRoute } from "../../contract/transports/receiver-route.js";

const [address = ""] = process.argv.slice(2);
const payload = { pid: process.pid };
const fetch = receiverRoute(async () => ({ acknowledged: true, duplicateDetected: false, payload }));
try {
  await listen({ address, fetch });
  process.stdout.write("listening\n");
} catch (error) {
  process.stdout.write(`refused: ${(error as Error).message}\n`);
}
