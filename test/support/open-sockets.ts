import type { Socket } from "node:net";

/** The sockets of a proxy that are open now. The end of a socket is no error, whatever its reason. */
export interface OpenSockets extends Iterable<Socket> {
  add(socket: Socket): Socket;
  destroyAll(): void;
  size(): number;
}

export function openSockets(): OpenSockets {
  const sockets = new Set<Socket>();
  return {
    add(socket) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => sockets.delete(socket));
      return socket;
    },
    destroyAll() {
      for (const socket of sockets) socket.destroy();
    },
    size: () => sockets.size,
    [Symbol.iterator]: () => sockets.values(),
  };
}
