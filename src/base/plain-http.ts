import type { IncomingMessage, ServerResponse } from "node:http";
import { headersOf } from "./headers-of.js";
import { type Route, respondBy } from "./node-http.js";
import type { ReadableRequest } from "./read-body.js";
import { toWebResponse } from "./to-web-response.js";

/**
 * The part of a web `Request` that this package uses, and its path. Making a `Request` or a `Response` loads Node's whole
 * fetch, a quarter of a function's cold start, and takes longer than a small request takes to handle.
 */
export interface PlainRequest extends ReadableRequest {
  readonly method: string;
  /** The whole URL. Its host is what the client says. */
  readonly url: string;
  /** That of the URL. */
  readonly path: string;
  /** The client's address, where the host knows it. */
  readonly client?: string | undefined;
}

export interface PlainResponse {
  readonly status: number;
  /** Names in lower case. A body without a content type is JSON. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export type PlainRoute = (request: PlainRequest) => Promise<PlainResponse>;

/** Lets a plain function respond to one request of node:http. `failed` is told of what it throws. */
export const respondPlainly = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  route: PlainRoute,
  failed: (error: unknown) => void,
): Promise<void> =>
  respondBy(incoming, outgoing, failed, async () => {
    const { method = "GET", url = "/", headers } = incoming;
    const response = await route({
      method,
      url: `http://${headers.host ?? "localhost"}${url}`,
      path: url.split("?", 1)[0]!,
      headers: { get: (name) => headers[name.toLowerCase()]?.toString() ?? null },
      body: incoming,
      client: incoming.socket.remoteAddress,
    });
    const { status, body = "" } = response;
    // a string, which Node sends together with the headers
    outgoing
      .writeHead(status, { ...headersOf(response), "content-length": Buffer.byteLength(body) })
      .end(body);
  });

/** The same as a function of the web's. */
export const webRoute =
  (route: PlainRoute): Route =>
  async (request) => {
    const { method, url, headers, body } = request;
    return toWebResponse(await route({ method, url, path: new URL(url).pathname, headers, body }));
  };
