import { createServer, connect as openSocket, type Server, type Socket } from "node:net";

/** Stands between a client and a server, and can be taken away like a network. */
export interface CuttableProxy {
  readonly port: number;
  /** All connections end, and no new one is made. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  /** Statements arrive, but the client receives no more of the answers. */
  muteAnswers(): void;
  /** Nothing passes on the connections that are open now, and none of them ends. New ones work, as after a fail-over. */
  freezeOpen(): void;
}

export async function startProxy(host: string, port: number): Promise<CuttableProxy> {
  const sockets = new Set<Socket>();
  const frozen = new WeakSet<Socket>();
  let muted = false;
  const server: Server = createServer((near) => {
    const far = openSocket(port, host);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far);
    far.on("data", (chunk) => {
      if (!muted && !frozen.has(far)) near.write(chunk);
    });
  });
  const listen = (at: number) => new Promise<void>((resolve) => server.listen(at, "127.0.0.1", resolve));
  await listen(0);
  const own = (server.address() as { port: number }).port;
  return {
    port: own,
    async cut() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    async mend() {
      muted = false;
      await listen(own);
    },
    muteAnswers() {
      muted = true;
    },
    freezeOpen() {
      for (const socket of sockets) {
        frozen.add(socket);
        socket.unpipe();
        socket.resume();
      }
    },
  };
}
