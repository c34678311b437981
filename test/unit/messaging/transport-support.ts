import { createServer, type RequestListener, type Server } from "node:http";
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from "node:net";
import { onTestFinished } from "vitest";
import type { Envelope } from "../../../src/messaging/envelope.js";
import type { Transport, TransportResponse } from "../../../src/messaging/transports/transport.js";
import { rejection } from "../../contract/transports/support.js";

export const acknowledgedText = '{"acknowledged":true,"duplicateDetected":false}';

async function atFreePort<T extends TcpServer>(server: T): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** A real HTTP server on a port of its own, until the test ends. */
export async function serveHttp(respond: RequestListener, path = "/_rf/receive") {
  const server: Server = createServer(respond);
  const port = await atFreePort(server);
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { server, port, address: `http://127.0.0.1:${port}${path}` };
}

/** A real TCP server that does what a test wants with each connection. */
export async function serveTcp(connected: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    connected(socket);
  });
  const port = await atFreePort(server);
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port, address: `http://127.0.0.1:${port}` };
}

export const sharedSecret = "c2VjcmV0IG9mIGJvdGggc2lkZXM=";

export const sendTo = (
  transport: Transport,
  address: string,
  message: Envelope,
): Promise<TransportResponse> =>
  transport.send(
    message,
    { serviceId: "inventory", address, secrets: [sharedSecret] },
    { signal: new AbortController().signal },
  );

export const failureOf = async (transport: Transport, address: string, message: Envelope): Promise<Error> =>
  (await rejection(sendTo(transport, address, message))) as Error;

/** Closes the transport after the test. */
export function closed<T extends Transport>(transport: T): T {
  onTestFinished(() => transport.close());
  return transport;
}
