import { dial, type LoopbackAddress, listenOn } from "./loopback.js";
import type { Decision } from "./lossy/decide-fault.js";
import { createGrpcServer } from "./lossy/grpc.js";
import { createHttpServer } from "./lossy/http.js";
import { createLine, type Line } from "./lossy/line.js";
import { openSockets } from "./open-sockets.js";

export interface LossyProxyOptions<A extends LoopbackAddress> {
  /** `grpc` takes unary calls. */
  readonly protocol: "http" | "grpc";
  /** Port 0 is any free port. */
  readonly listen: A;
  readonly target: LoopbackAddress;
  /** What happens to the n-th request that arrives. `decideFault` decides by a seed. */
  readonly decide: (index: number) => Decision;
  /** How long a request waits at most for others to overtake it, 1 s by default. */
  readonly maxHoldMs?: number;
}

export interface LossyProxy<A extends LoopbackAddress> {
  readonly address: A;
  /** Can be changed at any time. While nothing listens there, senders see cut connections. */
  target: LoopbackAddress;
  readonly arrived: Line["arrived"];
  readonly counts: Line["counts"];
  /** Resolves when no request is on its way, late duplicates included. */
  idle(): Promise<void>;
  /** Ends all connections and what is on its way. */
  close(): Promise<void>;
}

/** Stands between two services on loopback and drops, cuts, delays, duplicates and reorders requests. */
export async function startLossyProxy<A extends LoopbackAddress>(
  options: LossyProxyOptions<A>,
): Promise<LossyProxy<A>> {
  const line = createLine(options.decide, options.maxHoldMs ?? 1_000);
  const sockets = openSockets();
  let target = options.target;
  const create = options.protocol === "grpc" ? createGrpcServer : createHttpServer;
  const server = create(line.run, {
    get address() {
      return target;
    },
    dial: () => sockets.add(dial(target)),
  });
  server.on("connection", (socket) => sockets.add(socket));
  const address = await listenOn(server, options.listen);
  return {
    address,
    get target() {
      return target;
    },
    set target(changed) {
      target = changed;
    },
    get arrived() {
      return line.arrived;
    },
    counts: line.counts,
    idle: line.idle,
    async close() {
      line.close();
      const closed = new Promise((resolve) => server.close(resolve));
      sockets.destroyAll();
      await line.idle();
      await closed;
    },
  };
}
