import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";

/** What a framework has changed about a request before it passes it on. */
export interface FrameworkRequest {
  /** The path as the client sent it, where a framework has cut off the part that it was mounted at. */
  readonly url?: string;
  /** The body's bytes, where a framework has read them already. */
  readonly body?: Uint8Array;
}

/** A request of node:http as a web Request. The body stays a stream, so that its reader can limit its size. */
export function requestFromNode(
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
export async function sendResponse(response: Response, outgoing: ServerResponse): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer());
  const length = response.body === null ? {} : { "content-length": body.byteLength };
  outgoing.writeHead(response.status, { ...Object.fromEntries(response.headers), ...length });
  outgoing.end(body);
}

export type Route = (request: Request) => Promise<Response>;

/** Lets a web-style function respond to one request of node:http. `failed` is told of what it throws. */
export async function respondTo(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  route: Route,
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
  await respondBy(incoming, outgoing, failed, async () => sendResponse(await route(request), outgoing));
}

/** Runs what responds to a request. `failed` is told of what it throws, and the client gets status 500. */
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
  discardRest(incoming);
}

/** A body that was not read to its end would hold its connection, and its sender might never see the response. */
function discardRest(incoming: IncomingMessage): void {
  if (!incoming.readableEnded) incoming.removeAllListeners("data").resume();
}
