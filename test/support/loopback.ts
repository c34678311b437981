import { once } from "node:events";
import { connect, type Server, type Socket } from "node:net";

/** A port of 127.0.0.1, or the path of a Unix socket or named pipe: never another machine. */
export type LoopbackAddress = { readonly port: number } | { readonly path: string };

const host = "127.0.0.1";

/** Returns where the server listens: for port 0 the port that it was given. */
export async function listenOn<A extends LoopbackAddress>(server: Server, address: A): Promise<A> {
  server.listen({ host, ...address });
  await once(server, "listening");
  const own = server.address();
  return own === null || typeof own === "string" ? address : { ...address, port: own.port };
}

export function dial(address: LoopbackAddress): Socket {
  return connect({ host, ...address });
}
