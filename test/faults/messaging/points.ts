import { createServer, type ServerResponse } from "node:http";
import { listenOn } from "../../support/loopback.js";

/** Named points in other processes. A process that comes to a held point stops there until it is released or killed. */
export interface Points {
  readonly url: string;
  /** Resolves when a process has stopped at the point. Later ones stop there as well. */
  hold(name: string): Promise<void>;
  /** How often a process has come to the point. */
  passed(name: string): number;
  /** Lets everybody go on. No point is held any more. */
  release(): void;
  close(): Promise<void>;
}

export async function startPoints(): Promise<Points> {
  const held = new Map<string, () => void>();
  const stopped = new Set<ServerResponse>();
  const counts = new Map<string, number>();
  const server = createServer((request, response) => {
    const name = decodeURIComponent(request.url!.slice(1));
    counts.set(name, (counts.get(name) ?? 0) + 1);
    const reached = held.get(name);
    if (reached === undefined) return void response.end();
    stopped.add(response);
    reached();
  });
  const { port } = await listenOn(server, { port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    hold: (name) =>
      new Promise((resolve) => {
        held.set(name, resolve);
      }),
    passed: (name) => counts.get(name) ?? 0,
    release() {
      held.clear();
      for (const response of stopped) response.end();
      stopped.clear();
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
