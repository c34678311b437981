import { type LoggerOption, loggerOf } from "../base/logger.js";
import { type NodeMiddleware, nodeMiddleware } from "../base/node-middleware.js";
import { safeReason } from "../base/safe-reason.js";
import { refuseUnknown } from "../queue/arguments.js";
import type { WebhookRoute } from "./route.js";

export interface WebhookMiddlewareOptions {
  readonly logger?: LoggerOption;
}

/**
 * The webhook route as middleware of Express, Connect and Nest, or a hook of Fastify. Requests for other paths than
 * `…/webhooks/{source}` go to `next`. It has to come before a parser of bodies, or after one that keeps the bytes, such
 * as `express.raw`: the signature is over the bytes.
 *
 * @example
 * const middleware = webhookMiddleware(route);
 * app.use(middleware); // Express
 * fastify.addHook("onRequest", (request, reply, done) => middleware(request.raw, reply.raw, done)); // Fastify
 */
export function webhookMiddleware(
  route: WebhookRoute,
  options: WebhookMiddlewareOptions = {},
): NodeMiddleware {
  refuseUnknown(options, ["logger"], "webhookMiddleware");
  const logger = loggerOf(options.logger);
  return nodeMiddleware({
    route,
    isFor: (path) => /\/webhooks\/[^/]/.test(path),
    failed: (error) => logger.error("webhook failed", { error: safeReason(error) }),
    name: "webhookMiddleware",
  });
}
