import type { Readable } from "node:stream";
import { collecting } from "./collect-bytes.js";
import { growingBuffer } from "./growing-buffer.js";
import type { OpenBodies } from "./open-bodies.js";

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

/** Why a body was not read. */
export type BodyRefusal = "too large" | "malformed" | "too slow" | "too many";

export interface BodyLimits {
  readonly maxBytes: number;
  /** The time that the whole body may take. */
  readonly withinMs?: number;
  /** The other bodies that share a bound of memory. */
  readonly among?: OpenBodies;
}

/** Returns the body's bytes, or why it cannot. Holds no more than the limit and one chunk in memory. */
export async function readBody(
  { headers, body }: ReadableRequest,
  limits: BodyLimits,
): Promise<Uint8Array | BodyRefusal> {
  const { maxBytes } = limits;
  const declared = headers.get("content-length");
  if (declared !== null && !/^\d+$/.test(declared)) return "malformed";
  if (Number(declared) > maxBytes) return "too large";
  if (body === null) return new Uint8Array();
  if (body instanceof Uint8Array) return body.byteLength > maxBytes ? "too large" : body;
  return readStream(body, limits);
}

function readStream(
  body: BodyStream | Readable,
  { maxBytes, withinMs, among }: BodyLimits,
): Promise<Uint8Array | BodyRefusal> {
  return new Promise((resolve) => {
    let isEnded = false;
    const end = (result: Uint8Array | BodyRefusal): void => {
      isEnded = true;
      clearTimeout(timer);
      open?.leave();
      resolve(result);
    };
    const timer = withinMs === undefined ? undefined : setTimeout(() => stop("too slow"), withinMs);
    const open = among?.enter(() => stop("too many"));
    const grown = (capacity: number): void => open?.takes(capacity);
    const reading =
      "getReader" in body ? webReading(body, maxBytes, grown) : collecting(body, maxBytes, grown);
    const stop = (why: BodyRefusal): void => {
      if (isEnded) return;
      reading.cancel();
      end(why);
    };
    reading.bytes.then(end, () => end("malformed")); // the connection was closed
  });
}

function webReading(body: BodyStream, maxBytes: number, grown: (capacity: number) => void) {
  const reader = body.getReader();
  const buffer = growingBuffer(maxBytes);
  let isCancelled = false;
  const cancel = (): void => {
    isCancelled = true;
    buffer.clear();
    reader.cancel().catch(() => {}); // not awaited: it may end only with the request
  };
  const read = async (): Promise<Uint8Array | "too large"> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || value === undefined || isCancelled) return buffer.bytes();
      if (buffer.length + value.byteLength > maxBytes) {
        cancel();
        return "too large";
      }
      buffer.add(value);
      grown(buffer.capacity);
    }
  };
  return { bytes: read(), cancel };
}
