import type { Readable } from "node:stream";
import { collectBytes } from "./collect-bytes.js";

export interface BodyStream {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
    cancel(): Promise<void>;
  };
}

/** Header names in any case. Values that were sent more than once are joined by commas. */
export interface IncomingHeaders {
  get(name: string): string | null;
}

/** The part of a request that its reader uses. */
export interface ReadableRequest {
  readonly headers: IncomingHeaders;
  /** The whole body, or a stream of the web or of Node that nobody reads yet. */
  readonly body: Uint8Array | BodyStream | Readable | null;
}

/** Returns the body's bytes, or why it cannot. Holds no more than the limit and one chunk in memory. */
export async function readBody(
  request: ReadableRequest,
  maxBytes: number,
): Promise<Uint8Array | "too large" | "malformed"> {
  const declared = request.headers.get("content-length");
  if (declared !== null && !/^\d+$/.test(declared)) return "malformed";
  if (Number(declared) > maxBytes) return "too large";
  if (request.body === null) return new Uint8Array();
  if (request.body instanceof Uint8Array) {
    return request.body.byteLength > maxBytes ? "too large" : request.body;
  }
  if (!("getReader" in request.body)) return collectBytes(request.body, maxBytes).catch(() => "malformed");
  const reader = request.body.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || value === undefined) return Buffer.concat(chunks);
      length += value.byteLength;
      if (length > maxBytes) {
        reader.cancel().catch(() => {}); // not awaited: the copy of a request ends only with the request itself
        return "too large";
      }
      chunks.push(value);
    }
  } catch {
    return "malformed"; // the connection was closed
  }
}
