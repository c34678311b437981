import type { Readable } from "node:stream";

interface BodyStream {
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

interface GrowingBuffer {
  readonly length: number;
  /** The memory that it has taken. */
  readonly capacity: number;
  add(chunk: Uint8Array): void;
  bytes(): Buffer;
  /** Gives the memory back. */
  clear(): void;
}

const firstCapacity = 1_024;

/**
 * Copies chunks into one buffer that doubles. A list of chunks would take up to a thousand times as much memory: each of
 * them is an object, and keeps the whole block that it was cut from.
 */
function growingBuffer(maxBytes: number): GrowingBuffer {
  let buffer = Buffer.alloc(0);
  let length = 0;
  return {
    get length() {
      return length;
    },
    get capacity() {
      return buffer.byteLength;
    },
    add(chunk) {
      const wanted = length + chunk.byteLength;
      if (wanted > buffer.byteLength) {
        const doubled = Math.max(wanted, firstCapacity, 2 * buffer.byteLength);
        const larger = Buffer.allocUnsafeSlow(Math.max(wanted, Math.min(doubled, maxBytes)));
        larger.set(buffer.subarray(0, length));
        buffer = larger;
      }
      buffer.set(chunk, length);
      length = wanted;
    },
    bytes: () => buffer.subarray(0, length),
    clear() {
      buffer = Buffer.alloc(0);
      length = 0;
    },
  };
}

interface Collecting {
  readonly bytes: Promise<Buffer | "too large">;
  /** Reads no more, and gives the memory back. The promise stays pending. */
  cancel(): void;
}

/** As `collectBytes`. `grown` is told of the memory that is taken. */
function collecting(
  stream: Readable,
  maxBytes: number,
  grown: (capacity: number) => void = () => {},
): Collecting {
  const buffer = growingBuffer(maxBytes);
  let tooLarge = (): void => {};
  // The listeners live as long as the connection, which a sender may keep open. The memory must not.
  const cancel = (): void => {
    stream.off("data", take).pause();
    buffer.clear();
  };
  const take = (chunk: Buffer): void => {
    if (buffer.length + chunk.byteLength > maxBytes) {
      cancel();
      tooLarge();
      return;
    }
    buffer.add(chunk);
    grown(buffer.capacity);
  };
  const bytes = new Promise<Buffer | "too large">((resolve, reject) => {
    tooLarge = () => resolve("too large");
    stream.on("data", take);
    stream.on("end", () => {
      resolve(buffer.bytes());
      buffer.clear();
    });
    stream.on("error", reject); // stays: an error after the end must not end the process
    stream.on("close", () => reject(new Error("The connection was closed."))); // does nothing after the end
  });
  return { bytes, cancel };
}

/**
 * Reads a stream that nobody reads yet. Holds no more than the limit and one chunk in memory; the rest of a larger stream
 * is not read. Rejects when the stream is cut off. Events instead of `for await`, which takes longer than a small body.
 */
export const collectBytes = (stream: Readable, maxBytes: number): Promise<Buffer | "too large"> =>
  collecting(stream, maxBytes).bytes;

/** The bodies that are read at the same time and that nothing proves yet. */
export interface OpenBodies {
  /** `refuse` is called when this body has to make room for others. */
  enter(refuse: () => void): OpenBody;
}

interface OpenBody {
  /** The body now takes so much memory. */
  takes(bytes: number): void;
  leave(): void;
}

interface OpenBodiesLimits {
  /** The memory of all of them. */
  readonly maxBytes: number;
  readonly maxCount?: number;
}

interface OpenBodyEntry {
  bytes: number;
  readonly refuse: () => void;
}

const defaultMaxCount = 1_000;

/**
 * Bounds the memory that senders can take who prove nothing. When there is too much, the largest body is refused; when
 * there are too many, the oldest: a body that stalls, not the small one that has just come.
 */
export function openBodies({ maxBytes, maxCount = defaultMaxCount }: OpenBodiesLimits): OpenBodies {
  const open = new Set<OpenBodyEntry>(); // in the order of their beginning
  let total = 0;
  const leave = (entry: OpenBodyEntry): void => {
    if (open.delete(entry)) total -= entry.bytes;
  };
  const refuse = (entry: OpenBodyEntry): void => {
    leave(entry);
    entry.refuse();
  };
  const largest = (): OpenBodyEntry => [...open].reduce((most, one) => (one.bytes > most.bytes ? one : most));

  return {
    enter(refuseThis) {
      const entry: OpenBodyEntry = { bytes: 0, refuse: refuseThis };
      open.add(entry);
      if (open.size > maxCount) refuse(open.values().next().value!);
      return {
        takes(bytes) {
          if (!open.has(entry)) return;
          total += bytes - entry.bytes;
          entry.bytes = bytes;
          while (total > maxBytes) refuse(largest());
        },
        leave: () => leave(entry),
      };
    },
  };
}

/** Why `fetch` failed: it hides the socket's error behind one of its own. */
export const fetchCause = (error: unknown): unknown => (error as { cause?: unknown }).cause ?? error;
