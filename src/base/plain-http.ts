import type { IncomingMessage, ServerResponse } from "node:http";
import { defined } from "./defined.js";
import { jsonContent } from "./json-content.js";
import { type Route, respondBy } from "./node-http.js";
import type { ReadableRequest } from "./read-body.js";

/** A request without the objects of the web, which take longer to make than a small request takes to handle. */
export interface PlainRequest extends ReadableRequest {
  readonly method: string;
  readonly path: string;
}

export interface PlainResponse {
  readonly status: number;
  /** Names in lower case. The content's type and length are not among them. */
  readonly headers?: Readonly<Record<string, string>>;
  /** In JSON. */
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
    const {
      status,
      headers: own,
      body = "",
    } = await route({
      method: incoming.method ?? "GET",
      path: (incoming.url ?? "/").split("?", 1)[0]!,
      headers: { get: (name) => incoming.headers[name]?.toString() ?? null },
      body: incoming,
    });
    const content = body === "" ? {} : jsonContent;
    const headers = { ...own, ...content, "content-length": Buffer.byteLength(body) };
    outgoing.writeHead(status, headers).end(body); // a string, which Node sends together with the headers
  });

/** The same as a function of the web's. */
export const webRoute =
  (route: PlainRoute): Route =>
  async (request) => {
    const { method, headers, body } = request;
    const path = new URL(request.url).pathname;
    const response = await route({ method, path, headers, body });
    const { status, headers: own } = response;
    return response.body === undefined
      ? new Response(null, { status, ...defined({ headers: own }) })
      : new Response(response.body, { status, headers: { ...own, ...jsonContent } });
  };
