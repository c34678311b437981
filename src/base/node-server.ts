import type { Server } from "node:http";
import type { ListenOptions, Server as NetServer } from "node:net";

/** Resolves when the server listens, and rejects when it cannot. */
export const listening = (server: NetServer, options: ListenOptions): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(options, () => {
      server.off("error", reject);
      resolve();
    });
  });

/** Waits for running requests. A request that is not complete after `stopMs` is cut off, and nothing of it is stored. */
export async function closeServer(server: Server, stopMs: number): Promise<void> {
  const ended = new Promise<void>((resolve) => server.close(() => resolve()));
  // A connection whose request ends now would stay open for the server's keep-alive time.
  const idle = setInterval(() => server.closeIdleConnections(), 20);
  const late = setTimeout(() => server.closeAllConnections(), stopMs);
  server.closeIdleConnections();
  await ended;
  clearInterval(idle);
  clearTimeout(late);
}
