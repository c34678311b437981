import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { frontendReader } from "./frontend-messages.js";

/** `request`: the statement reaches the server late. `response`: it is executed at once, and its client hears of it late. */
export interface Delay {
  readonly of: "request" | "response";
  readonly ms: number;
}

export interface DelayingProxy {
  /** The server's address, by way of the proxy. */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Stands between clients and a PostgreSQL server and delays some statements. What follows a delayed statement on its
 * connection waits behind it; other connections do not. A delayed statement reaches the server even if its client has died.
 */
export async function startDelayingProxy(
  serverUrl: string,
  delayOf: (statementText: string) => Delay | undefined,
): Promise<DelayingProxy> {
  const target = new URL(serverUrl);
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    const requests = heldChannel(server);
    const responses = heldChannel(client);
    const read = frontendReader(
      onExecuted((text) => {
        const delay = delayOf(text);
        if (delay !== undefined) (delay.of === "request" ? requests : responses).hold(delay.ms);
      }),
    );
    client.on("data", (chunk) => {
      read(chunk);
      requests.pass(chunk);
    });
    server.on("data", responses.pass);
    for (const [socket, other] of [
      [client, requests],
      [server, responses],
    ] as const) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        other.end();
      });
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const url = new URL(serverUrl);
  url.port = String((proxy.address() as AddressInfo).port);
  return {
    url: url.href,
    async close() {
      const closed = new Promise((resolve) => proxy.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Passes chunks on in order. */
function heldChannel(to: Socket) {
  let free = Promise.resolve();
  return {
    pass(chunk: Buffer): void {
      free = free.then(() => void to.write(chunk));
    },
    /** What is passed from now on waits so long. */
    hold(ms: number): void {
      free = free.then(() => new Promise((resolve) => void setTimeout(resolve, ms).unref()));
    },
    end(): void {
      free = free.then(() => void to.destroySoon());
    },
  };
}

/** Calls back with the text of each statement that is bound: a prepared one sends its text only once. */
function onExecuted(callback: (text: string) => void): (type: string, body: Buffer) => void {
  const prepared = new Map<string, string>();
  return (type, body) => {
    if (type !== "P" && type !== "B") return;
    const [first, second] = body.toString("latin1").split("\0", 2) as [string, string];
    if (type === "P") prepared.set(first, second);
    else callback(prepared.get(second) ?? "");
  };
}
