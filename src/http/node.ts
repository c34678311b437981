import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { ListenOptions, Server as NetServer } from "node:net";
import { Readable } from "node:stream";
import { InvalidOperationError } from "../errors.js";

export type Route = (request: Request) => Promise<Response>;

/** A route that may want to know the address of the client. */
export type HostedRoute = (request: Request, client: string | undefined) => Promise<Response>;

/** Lets a web-style function respond to one request of node:http. `failed` gets what it throws. */
export async function respondTo(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  route: HostedRoute,
  failed: (error: unknown) => void,
  framework?: FrameworkRequest,
): Promise<void> {
  const gone = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) gone.abort();
  });
  let request: Request;
  try {
    request = requestFromNode(incoming, gone.signal, framework);
  } catch {
    outgoing.writeHead(400).end(); // the host, path or method is not valid
    return;
  }
  const client = incoming.socket.remoteAddress;
  await respondBy(incoming, outgoing, failed, async () =>
    sendResponse(await route(request, client), outgoing),
  );
}

/** What a framework has changed about a request before it passes it on. */
interface FrameworkRequest {
  /** The path as the client sent it, where a framework has cut off the part that it was mounted at. */
  readonly url?: string;
  /** The body's bytes, where a framework has read them already. */
  readonly body?: Uint8Array;
}

/** A request of node:http as a web Request. The body stays a stream, so that its reader can limit its size. */
function requestFromNode(
  incoming: IncomingMessage,
  signal: AbortSignal,
  { url = incoming.url ?? "/", body }: FrameworkRequest = {},
): Request {
  const headers = new Headers();
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    headers.append(incoming.rawHeaders[i]!, incoming.rawHeaders[i + 1]!);
  }
  const method = incoming.method ?? "GET";
  const hasBody = method !== "GET" && method !== "HEAD";
  const init: RequestInit & { duplex?: "half" } = { method, headers, signal };
  if (hasBody) {
    init.body = body ?? (Readable.toWeb(incoming) as ReadableStream<Uint8Array>);
    init.duplex = "half";
  }
  // A client of a Unix socket may send any host.
  return new Request(new URL(url, `http://${incoming.headers.host ?? "localhost"}`), init);
}

/** Sends a whole response. The responses of this package are small. */
async function sendResponse(response: Response, outgoing: ServerResponse): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer());
  const length = response.body === null ? {} : { "content-length": body.byteLength };
  outgoing.writeHead(response.status, { ...Object.fromEntries(response.headers), ...length });
  outgoing.end(body);
}

/** Runs what responds to a request. `failed` gets what it throws, and the client gets status 500. */
export async function respondBy(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  failed: (error: unknown) => void,
  respond: () => Promise<void>,
): Promise<void> {
  try {
    await respond();
  } catch (error) {
    if (outgoing.destroyed) return; // the client has disconnected
    failed(error);
    if (!outgoing.headersSent) outgoing.writeHead(500);
    outgoing.end();
  }
  // a body that was not read to its end would hold its connection, and its sender might never see the response
  if (!incoming.readableEnded) incoming.removeAllListeners("data").resume();
}

/** Middleware of Express, Connect and their like. */
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

interface NodeMiddlewareParts {
  readonly route: HostedRoute;
  /** Requests for other paths go to `next`. `mounted` is the path without the part that the middleware was mounted at. */
  readonly isFor: (path: string, mounted: string) => boolean;
  readonly failed: (error: unknown) => void;
  /** The function that the user calls, for the error about a parser that came first. */
  readonly name: string;
}

/** A web-style function as middleware of Express, Connect, or a hook of Fastify. It needs the bytes of the body. */
export function nodeMiddleware({ route, isFor, failed, name }: NodeMiddlewareParts): NodeMiddleware {
  return (incoming: ExpressRequest, outgoing, next) => {
    const url = incoming.originalUrl ?? incoming.url ?? "/";
    const path = pathOf(url);
    if (!isFor(path, pathOf(incoming.url))) return next();
    const { body, readableDidRead: isRead } = incoming;
    if (!isRead) return void respondTo(incoming, outgoing, route, failed, { url });
    if (!(body instanceof Uint8Array)) return next(parsedTooEarly(path, name));
    void respondTo(incoming, outgoing, route, failed, { url, body });
  };
}

const pathOf = (url = "/"): string => url.split("?", 1)[0]!;

const parsedTooEarly = (path: string, name: string): InvalidOperationError =>
  new InvalidOperationError(
    `The body of a request for ${path} was parsed before ${name} got it, and its signature cannot be verified. Put ${name} before express.json and other parsers.`,
  );

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
