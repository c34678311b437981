import { type Logger, type LoggerOption, loggerOf, safeReason } from "../../base/logger.js";
import { InvalidArgumentError } from "../../errors.js";
import { type NodeMiddleware, nodeMiddleware, type Route } from "../../http/node.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { ServiceReceiver } from "../receiver.js";
import { grpcSchemes, httpSchemes, receivePath, schemeOf } from "./address.js";
import type { TlsMaterial } from "./transport.js";

/** Where a service listens. */
export interface ListenOptions {
  /** `http://127.0.0.1:4001`, `https:`, `unix:`, `pipe:`, `grpc:` or `grpcs:`. Port 0 takes a free one. */
  readonly address: string;
  /** What responds: `service.receiver`. Or give `fetch`. */
  readonly receiver?: ListeningReceiver;
  /** A function of your own that responds, for example one around `service.receiver.fetch`. */
  readonly fetch?: Route;
  /** For `https:` and `grpcs:`. With `ca`, clients must show a certificate that it signed. */
  readonly tls?: TlsMaterial;
  /** How long `close` waits for running requests before it cuts them off: 10 s by default. */
  readonly stopMs?: number;
  /** gRPC with `fetch` only: the path of the requests that it gets. `/_rf/receive` by default. */
  readonly path?: string;
  /** That of the receiver's service by default. */
  readonly logger?: LoggerOption;
}

/** The part of `service.receiver` that is used. */
export type ListeningReceiver = Pick<ServiceReceiver, "fetch" | "respond" | "handle" | "maxBodyBytes"> &
  Partial<ServiceReceiver>;

/** A service that listens. */
export interface Listener {
  /** The address for senders, with the real port. */
  readonly address: string;
  /** Takes no new messages, waits for those that are being handled, and ends all connections. */
  close(): Promise<void>;
}

const listenDefaults = { stopMs: 10_000, path: receivePath } as const;

/**
 * Listens for messages on a port, a socket or a pipe.
 *
 * @example
 * const listener = await listen({ address: "unix:///tmp/rf-orders.sock", receiver: orders.receiver });
 */
export async function listen(options: ListenOptions): Promise<Listener> {
  refuseUnknown(options, ["address", "receiver", "fetch", "tls", "stopMs", "path", "logger"], "listen");
  const { receiver } = options;
  const fetch = options.fetch ?? receiver?.fetch;
  if (fetch === undefined || (options.fetch !== undefined && receiver !== undefined))
    throw new InvalidArgumentError("listen: pass receiver or fetch, not both.");
  const merged = { ...listenDefaults, ...options, fetch };
  requireDuration(merged.stopMs, "listen: stopMs");
  if (typeof merged.fetch !== "function")
    throw new InvalidArgumentError("listen: fetch must be a function, such as service.receiver.fetch.");
  const settings = { ...merged, logger: loggerOf(merged.logger ?? receiver?.logger) };
  const scheme = schemeOf(options.address);
  if (grpcSchemes.includes(scheme)) return (await import("./listen-grpc.js")).listenGrpc(settings);
  if (httpSchemes.includes(scheme)) return (await import("./listen-http.js")).listenHttp(settings);
  throw new InvalidArgumentError(
    `listen: unknown scheme ${scheme}// of the address. Known: ${[...httpSchemes, ...grpcSchemes].join("// ")}//`,
  );
}

export interface ListenSettings
  extends Required<Omit<ListenOptions, "tls" | "receiver" | "logger">>,
    Pick<ListenOptions, "tls" | "receiver"> {
  readonly logger: Logger;
}

/** A server of `https:` or `grpcs:` needs a certificate. */
export function requireCertificate({ tls, address }: ListenSettings) {
  const { cert, key } = tls ?? {};
  if (cert !== undefined && key !== undefined) return { ...tls, cert, key };
  throw new InvalidArgumentError(`listen: ${schemeOf(address)}// needs tls: { cert, key }.`);
}

/** Options of a service's receiver inside of a server of your own. */
export interface ReceiverMiddlewareOptions {
  /** That of the receiver's service by default. */
  readonly logger?: LoggerOption;
}

/** The part of `service.receiver` that is used. `fetch` may be a function of your own around the receiver's. */
export type MiddlewareReceiver = Pick<ServiceReceiver, "fetch" | "serves"> & Partial<ServiceReceiver>;

/**
 * The receiver and the diagnostics as middleware of Express, Connect, or a hook of Fastify. It has to come before a parser of
 * bodies, or after one that keeps the bytes, such as `express.raw`: it reads the body itself. Requests for other paths go to
 * `next`.
 *
 * @example
 * const middleware = receiverMiddleware(orders.receiver);
 * app.use(middleware); // Express
 * fastify.addHook("onRequest", (request, reply, done) => middleware(request.raw, reply.raw, done)); // Fastify
 */
export function receiverMiddleware(
  receiver: MiddlewareReceiver,
  options: ReceiverMiddlewareOptions = {},
): NodeMiddleware {
  refuseUnknown(options, ["logger"], "receiverMiddleware");
  if (typeof receiver?.fetch !== "function" || typeof receiver.serves !== "function")
    throw new InvalidArgumentError("receiverMiddleware takes service.receiver.");
  const logger = loggerOf(options.logger ?? receiver.logger);
  return nodeMiddleware({
    route: receiver.fetch,
    isFor: receiver.serves,
    failed: (error) => logger.error("receiving failed", { error: safeReason(error) }),
    name: "receiverMiddleware",
  });
}
