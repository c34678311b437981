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
    const reading = collecting(body, maxBytes, (capacity) => open?.takes(capacity));
    const stop = (why: BodyRefusal): void => {
      if (isEnded) return;
      reading.cancel();
      end(why);
    };
    reading.bytes.then(end, () => end("malformed")); // the connection was closed
  });
}

/**
 * Reads a stream that nobody reads yet. Holds no more than the limit and one chunk in memory; the rest of a larger stream
 * is not read. Rejects when the stream is cut off.
 */
export const collectBytes = (stream: Readable, maxBytes: number): Promise<Buffer | "too large"> =>
  collecting(stream, maxBytes).bytes;

/** As `collectBytes`. `grown` gets the memory that is taken. After `cancel` the promise stays pending. */
function collecting(
  stream: BodyStream | Readable,
  maxBytes: number,
  grown: (capacity: number) => void = () => {},
) {
  const buffer = growingBuffer(maxBytes);
  let cancel = (): void => {};
  const bytes = new Promise<Buffer | "too large">((resolve, reject) => {
    const events: StreamEvents = {
      data(chunk) {
        if (buffer.length + chunk.byteLength > maxBytes) {
          cancel();
          resolve("too large");
          return;
        }
        buffer.add(chunk);
        grown(buffer.capacity);
      },
      end() {
        resolve(buffer.bytes());
        buffer.clear();
      },
      error: reject,
    };
    const stop = "getReader" in stream ? pull(stream, events) : listen(stream, events);
    // The listeners live as long as the connection, which a sender may keep open. The memory must not.
    cancel = () => {
      stop();
      buffer.clear();
    };
  });
  return { bytes, cancel: () => cancel() };
}

interface StreamEvents {
  data(chunk: Uint8Array): void;
  end(): void;
  error(error: unknown): void;
}

/** Returns what stops it. */
function pull(body: BodyStream, { data, end, error }: StreamEvents): () => void {
  const reader = body.getReader();
  let isStopped = false;
  const read = async (): Promise<void> => {
    while (!isStopped) {
      const { done, value } = await reader.read();
      if (isStopped) return;
      if (done || value === undefined) return end();
      data(value);
    }
  };
  read().catch(error);
  return () => {
    isStopped = true;
    reader.cancel().catch(() => {}); // not awaited: it may end only with the request
  };
}

/** Returns what stops it. Events instead of `for await`, which takes longer than a small body. */
function listen(stream: Readable, { data, end, error }: StreamEvents): () => void {
  stream.on("data", data);
  stream.on("end", end);
  stream.on("error", error); // stays: an error after the end must not end the process
  stream.on("close", () => error(new Error("The connection was closed."))); // does nothing after the end
  return () => stream.off("data", data).pause();
}

const firstCapacity = 1_024;

/**
 * Copies chunks into one buffer that doubles. A list of chunks would take up to a thousand times as much memory: each of
 * them is an object, and keeps the whole block that it was cut from.
 */
function growingBuffer(maxBytes: number) {
  let buffer = Buffer.alloc(0);
  let length = 0;
  return {
    get length() {
      return length;
    },
    /** The memory that it has taken. */
    get capacity() {
      return buffer.byteLength;
    },
    add(chunk: Uint8Array) {
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
    /** Gives the memory back. */
    clear() {
      buffer = Buffer.alloc(0);
      length = 0;
    },
  };
}

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

interface OpenBodyEntry {
  bytes: number;
  readonly refuse: () => void;
}

const maxCount = 1_000;

/**
 * Bounds the memory that senders can take who prove nothing. When there is too much, the largest body is refused; when
 * there are too many, the oldest: a body that stalls, not the small one that has just come.
 */
export function openBodies({ maxBytes }: { readonly maxBytes: number }): OpenBodies {
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
