import type { IncomingMessage, ServerResponse } from "node:http";
import { InvalidOperationError } from "../errors.js";
import { type FrameworkRequest, type Route, respondTo } from "./node-http.js";

export type NodeMiddleware = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  next: (error?: Error) => void,
) => void;

/** What Express adds to a request. */
interface ExpressRequest extends IncomingMessage {
  readonly originalUrl?: string;
  readonly body?: unknown;
}

export interface NodeMiddlewareParts {
  readonly route: Route;
  /** Requests for other paths go to `next`. */
  readonly isFor: (path: string) => boolean;
  readonly failed: (error: unknown) => void;
  /** The function that the user calls, for the error about a parser that came first. */
  readonly name: string;
}

/** A web-style function as middleware of Express, Connect, or a hook of Fastify. It needs the bytes of the body. */
export function nodeMiddleware({ route, isFor, failed, name }: NodeMiddlewareParts): NodeMiddleware {
  return (incoming: ExpressRequest, outgoing, next) => {
    const url = incoming.originalUrl ?? incoming.url ?? "/";
    const path = url.split("?")[0]!;
    if (!isFor(path)) return next();
    const framework = framed(incoming, url);
    if (framework === undefined) return next(parsedTooEarly(path, name));
    void respondTo(incoming, outgoing, route, failed, framework);
  };
}

/** The request's path and, if a parser has read them, its bytes. Undefined if a parser has read them and not kept them. */
function framed(incoming: ExpressRequest, url: string): FrameworkRequest | undefined {
  const { body } = incoming;
  if (!incoming.readableDidRead) return { url };
  return body instanceof Uint8Array ? { url, body } : undefined;
}

const parsedTooEarly = (path: string, name: string): InvalidOperationError =>
  new InvalidOperationError(
    `The body of a request for ${path} was parsed before ${name} got it, and its signature cannot be verified. Put ${name} before express.json and other parsers.`,
  );
