/**
 * Starts a receiver and a transport, sends a message, closes both, and does nothing more. It ends by itself only if they
 * leave nothing open. With the argument "idle" the transport is left open: kept connections must not keep a process alive.
 */

import type { Envelope } from "../../../src/messaging/envelope.js";
import { listen } from "../../../src/messaging/transports/listen.js";
import { createTransports } from "../../../src/messaging/transports/transports.js";

const [listenAt = "", tls = "{}", end = ""] = process.argv.slice(2);
const { cert, key } = JSON.parse(tls) as { cert?: string; key?: string };
const server = cert === undefined || key === undefined ? {} : { tls: { cert, key } };
const client = cert === undefined ? {} : { tls: { ca: cert } };

const fetch = async () => Response.json({ acknowledged: true, duplicateDetected: false });
const listener = await listen({ address: listenAt, fetch, ...server });
const transports = createTransports({
  body: (envelope) => JSON.stringify(envelope),
  http: client,
  grpc: client,
});
const { address, transport } = transports.resolve("inventory", { address: listener.address });
const message: Envelope = {
  messageId: "1",
  correlationId: null,
  sourceServiceId: "orders",
  messageType: "Signal",
  endpoint: "OrderApproved",
  payload: null,
  headers: {},
};
const destination = { serviceId: "inventory", address, secrets: [] };
const response = await transport.send(message, destination, { signal: new AbortController().signal });
if (end !== "idle") await transports.close();
await listener.close();
process.stdout.write(`${JSON.stringify(response)}\n`);
