import type { IncomingMessage, ServerResponse } from "node:http";
import { type LoggerOption, loggerOf } from "../../base/logger.js";
import { type FrameworkRequest, type Route, respondTo } from "../../base/node-http.js";
import { safeReason } from "../../base/safe-reason.js";
import { InvalidOperationError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { receivePath } from "./address.js";

export interface ReceiverMiddlewareOptions {
  /** The path of the receiver; requests for other paths go to `next`. `/_rf/receive` by default. */
  readonly path?: string;
  readonly logger?: LoggerOption;
}

/** What Express adds to a request. */
interface ExpressRequest extends IncomingMessage {
  readonly originalUrl?: string;
  readonly body?: unknown;
}

export type NodeMiddleware = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  next: (error?: Error) => void,
) => void;

/**
 * The receiver as middleware of Express, Connect, or a hook of Fastify. It has to come before a parser of bodies, or
 * after one that keeps the bytes, such as `express.raw`: the signature is over the bytes.
 *
 * @example
 * app.use(receiverMiddleware(orders.receiver.fetch)); // Express
 * fastify.addHook("onRequest", ({ raw }, reply, done) => middleware(raw, reply.raw, done)); // Fastify
 */
export function receiverMiddleware(fetch: Route, options: ReceiverMiddlewareOptions = {}): NodeMiddleware {
  refuseUnknown(options, ["path", "logger"], "receiverMiddleware");
  const { path = receivePath } = options;
  const logger = loggerOf(options.logger);
  const failed = (error: unknown) => logger.error("receiving failed", { error: safeReason(error) });
  return (incoming: ExpressRequest, outgoing, next) => {
    const url = incoming.originalUrl ?? incoming.url ?? "/";
    if (url.split("?")[0] !== path) return next();
    const framework = framed(incoming, url);
    if (framework === undefined) return next(parsedTooEarly(path));
    void respondTo(incoming, outgoing, fetch, failed, framework);
  };
}

/** The request's path and, if a parser has read them, its bytes. Undefined if a parser has read them and not kept them. */
function framed(incoming: ExpressRequest, url: string): FrameworkRequest | undefined {
  const { body } = incoming;
  if (!incoming.readableDidRead) return { url };
  return body instanceof Uint8Array ? { url, body } : undefined;
}

const parsedTooEarly = (path: string): InvalidOperationError =>
  new InvalidOperationError(
    `The body of a request for ${path} was parsed before the receiver got it, and its signature cannot be verified. Put receiverMiddleware before express.json and other parsers.`,
  );
