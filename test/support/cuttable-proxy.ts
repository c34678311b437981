import { createServer, connect as openSocket, type Server, type Socket } from "node:net";
import { dial, type LoopbackAddress, listenOn } from "./loopback.js";
import { openSockets } from "./open-sockets.js";

/** Stands between a client and a server, and can be taken away like a network. */
export interface CuttableProxy {
  readonly port: number;
  /** All connections end, and no new one is made. */
  cut(): Promise<void>;
  mend(): Promise<void>;
  /** As `cut`, when so many bytes have passed from now on. */
  cutAfter(limits: { readonly requestBytes?: number; readonly responseBytes?: number }): void;
  /** Statements arrive, but the client receives no more of the answers. */
  muteAnswers(): void;
  /** Nothing passes on the connections that are open now, and none of them ends. New ones work, as after a fail-over. */
  freezeOpen(): void;
  /** Resolves when no connection is open. */
  allClosed(): Promise<void>;
}

/** A proxy on a TCP port of its own. */
export const startProxy = (host: string, port: number): Promise<CuttableProxy> =>
  proxyTo(() => openSocket(port, host), { port: 0 });

/** A proxy between two Unix sockets. */
export const startSocketProxy = (own: string, target: string): Promise<CuttableProxy> =>
  proxyTo(() => dial({ path: target }), { path: own });

async function proxyTo(connect: () => Socket, at: LoopbackAddress): Promise<CuttableProxy> {
  const sockets = openSockets();
  const frozen = new WeakSet<Socket>();
  let muted = false;
  let left = { requestBytes: Number.POSITIVE_INFINITY, responseBytes: Number.POSITIVE_INFINITY };
  let cutting: Promise<void> | undefined;
  let noneOpen = (): void => {};
  const passed = (direction: keyof typeof left, chunk: Buffer) => {
    left[direction] -= chunk.byteLength;
    if (left[direction] < 0) void cut();
  };
  const server: Server = createServer((near) => {
    const far = connect();
    for (const socket of [near, far]) {
      sockets.add(socket).on("close", () => {
        near.destroy();
        far.destroy();
        if (sockets.size() === 0) noneOpen();
      });
    }
    near.pipe(far);
    near.on("data", (chunk: Buffer) => passed("requestBytes", chunk));
    far.on("data", (chunk: Buffer) => {
      if (!muted && !frozen.has(far)) near.write(chunk);
      passed("responseBytes", chunk);
    });
  });
  const own = await listenOn(server, at);
  const cut = (): Promise<void> => {
    cutting ??= new Promise((resolve) => {
      server.close(() => resolve());
      sockets.destroyAll();
    });
    return cutting;
  };
  return {
    port: "port" in own ? own.port : 0,
    cut,
    async mend() {
      await cutting;
      cutting = undefined;
      muted = false;
      left = { requestBytes: Number.POSITIVE_INFINITY, responseBytes: Number.POSITIVE_INFINITY };
      await listenOn(server, own);
    },
    cutAfter(limits) {
      left = { ...left, ...limits };
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
    allClosed: () =>
      new Promise((resolve) => {
        noneOpen = resolve;
        if (sockets.size() === 0) resolve();
      }),
  };
}
