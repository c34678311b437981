import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHeaders, ReadableRequest } from "./body.js";
import { type Route, respondBy } from "./node.js";

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
  readonly headers?: ResponseHeaders;
  readonly body?: string;
}

export type ResponseHeaders = Readonly<Record<string, string>>;

export type PlainRoute = (request: PlainRequest) => Promise<PlainResponse>;

/** Nobody on the way keeps a response, and no browser takes it for anything but what it says that it is. */
export const privateHeaders = { "cache-control": "no-store", "x-content-type-options": "nosniff" } as const;

export const emptyResponse = (status: number, headers: ResponseHeaders = {}): PlainResponse => ({
  status,
  headers: { ...privateHeaders, ...headers },
});

export const textResponse = (status: number, body: string, headers?: ResponseHeaders): PlainResponse => ({
  ...emptyResponse(status, headers),
  body,
});

export const jsonResponse = (status: number, value: unknown, headers?: ResponseHeaders): PlainResponse =>
  textResponse(status, JSON.stringify(value), headers);

/** All headers that a host has to send but the content's length. */
export const headersOf = ({ headers, body = "" }: PlainResponse): Record<string, string> =>
  body === "" ? { ...headers } : { "content-type": "application/json", ...headers };

/** How a response is logged: a failure of ours, a request that was refused, or `normal`. */
export const logLevelOf = <Level>(status: number, normal: Level): "error" | "warn" | Level =>
  status >= 500 ? "error" : status >= 400 ? "warn" : normal;

/** Lets a plain function respond to one request of node:http. `failed` gets what it throws. */
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
  async (request) =>
    toWebResponse(await route(plainRequest(request)));

/** @param client the address of the client, where the host knows it */
export const plainRequest = (
  { method, url, headers, body }: Request,
  client?: string | undefined,
): PlainRequest => ({ method, url, path: new URL(url).pathname, headers, body, client });

export function toWebResponse(response: PlainResponse): Response {
  const { status, body = "" } = response;
  return new Response(body === "" ? null : body, { status, headers: headersOf(response) });
}

/** A response of the web in the format of RFC 9457. */
export const problemResponse = (status: number, title: string): Response =>
  Response.json({ title, status }, { status, headers: { "content-type": "application/problem+json" } });

/**
 * Whether a browser sends the request for a page of another site. Any page can make it send one, with the rights that the
 * browser's place in the network gives. Only browsers send these headers.
 */
export function isForeignPage(headers: IncomingHeaders): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site !== "same-origin" && site !== "none";
  const origin = headers.get("origin");
  return origin !== null && hostOf(origin) !== headers.get("host")?.toLowerCase();
}

const hostOf = (origin: string): string | undefined =>
  URL.canParse(origin) ? new URL(origin).host : undefined;

/** Returns undefined when the text is not valid percent-encoding. */
export function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
