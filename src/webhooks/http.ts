import type { BodyStream } from "../base/read-body.js";
import type { IncomingHeaders } from "./schemes/delivery.js";

export type { IncomingHeaders } from "./schemes/delivery.js";

/**
 * The part of a web `Request` that webhooks use. A platform that has these parts passes them as they are: creating a
 * `Request` or a `Response` loads Node's whole fetch, a quarter of a function's cold start.
 */
export interface IncomingRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHeaders;
  /** The whole body, or a stream of it. */
  readonly body: Uint8Array | BodyStream | null;
}

export interface Answer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export const toResponse = ({ status, headers, body }: Answer): Response =>
  new Response(body === "" ? null : body, { status, headers });
