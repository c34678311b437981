import { type LoggerOption, loggerOf } from "../../base/logger.js";
import type { Route } from "../../base/node-http.js";
import { type NodeMiddleware, nodeMiddleware } from "../../base/node-middleware.js";
import { safeReason } from "../../base/safe-reason.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { receivePath } from "./address.js";

export type { NodeMiddleware } from "../../base/node-middleware.js";

export interface ReceiverMiddlewareOptions {
  /** The path of the receiver; requests for other paths go to `next`. `/_rf/receive` by default. */
  readonly path?: string;
  readonly logger?: LoggerOption;
}

/**
 * The receiver as middleware of Express, Connect, or a hook of Fastify. It has to come before a parser of bodies, or
 * after one that keeps the bytes, such as `express.raw`: the signature is over the bytes.
 *
 * @example
 * const middleware = receiverMiddleware(orders.receiver.fetch);
 * app.use(middleware); // Express
 * fastify.addHook("onRequest", (request, reply, done) => middleware(request.raw, reply.raw, done)); // Fastify
 */
export function receiverMiddleware(fetch: Route, options: ReceiverMiddlewareOptions = {}): NodeMiddleware {
  refuseUnknown(options, ["path", "logger"], "receiverMiddleware");
  const { path = receivePath } = options;
  const logger = loggerOf(options.logger);
  return nodeMiddleware({
    route: fetch,
    isFor: (one) => one === path,
    failed: (error) => logger.error("receiving failed", { error: safeReason(error) }),
    name: "receiverMiddleware",
  });
}
