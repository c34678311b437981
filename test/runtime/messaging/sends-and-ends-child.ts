/**
 * Starts a receiver and a transport, sends a message, closes both, and does nothing more. It ends by itself only if they
 * leave nothing open. With the argument "idle" the transport is left open: kept connections must not keep a process alive.
 */

import { createTransports } from "../../../src/messaging/destinations.js";
import type { Envelope } from "../../../src/messaging/envelope.js";
import { listen } from "../../../src/messaging/transports/listen.js";

const [listenAt = "", tls = "{}", end = ""] = process.argv.slice(2);
const { cert, key } = JSON.parse(tls) as { cert?: string; key?: string };
const server = cert === undefined || key === undefined ? {} : { tls: { cert, key } };
const client = cert === undefined ? {} : { tls: { ca: cert } };

const fetch = async () => Response.json({ acknowledged: true, duplicateDetected: false });
const listener = await listen({ address: listenAt, fetch, ...server });
const transports = createTransports({ http: client, grpc: client });
const { address, transport } = transports.resolve("inventory", { address: listener.address });
const message: Envelope = {
  messageId: "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
  correlationId: null,
  sourceServiceId: "orders",
  messageType: "Signal",
  endpoint: "OrderApproved",
  payload: null,
  headers: {},
};
const destination = { serviceId: "inventory", address, secrets: ["c2VjcmV0IG9mIGJvdGggc2lkZXM="] };
const response = await transport.send(message, destination, { signal: new AbortController().signal });
if (end !== "idle") await transports.close();
await listener.close();
process.stdout.write(`${JSON.stringify(response)}\n`);
