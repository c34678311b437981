import { createServer, connect as openSocket, type Server, type Socket } from "node:net";
import { listenOn } from "./loopback.js";
import { openSockets } from "./open-sockets.js";

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
  const sockets = openSockets();
  const frozen = new WeakSet<Socket>();
  let muted = false;
  const server: Server = createServer((near) => {
    const far = openSocket(port, host);
    for (const socket of [near, far]) {
      sockets.add(socket).on("close", () => {
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far);
    far.on("data", (chunk) => {
      if (!muted && !frozen.has(far)) near.write(chunk);
    });
  });
  const own = await listenOn(server, { port: 0 });
  return {
    port: own.port,
    async cut() {
      const closed = new Promise((resolve) => server.close(resolve));
      sockets.destroyAll();
      await closed;
    },
    async mend() {
      muted = false;
      await listenOn(server, own);
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
