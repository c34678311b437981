import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { frontendReader } from "./frontend-messages.js";

export interface WireCount {
  /** Statements that the server was told to execute. */
  readonly statements: number;
  /** How often the client had to wait for the server. */
  readonly roundTrips: number;
}

export interface WireCounter {
  /** The server's address, by way of the counter. */
  readonly url: string;
  /** What `work` cost. */
  count(work: () => Promise<unknown>): Promise<WireCount>;
  close(): Promise<void>;
}

/** Stands between a client and a PostgreSQL server and counts what goes over the wire. */
export async function startWireCounter(serverUrl: string): Promise<WireCounter> {
  const target = new URL(serverUrl);
  let statements = 0;
  let roundTrips = 0;
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    const read = frontendReader((type) => {
      if (type === "Q" || type === "E") statements++;
    });
    let isClientsTurn = true;
    client.on("data", (chunk) => {
      if (isClientsTurn) roundTrips++;
      isClientsTurn = false;
      read(chunk);
      server.write(chunk);
    });
    server.on("data", (chunk) => {
      isClientsTurn = true;
      client.write(chunk);
    });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const url = new URL(serverUrl);
  url.port = String((proxy.address() as AddressInfo).port);
  return {
    url: url.href,
    async count(work) {
      const before = { statements, roundTrips };
      await work();
      return { statements: statements - before.statements, roundTrips: roundTrips - before.roundTrips };
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}
