import type { Readable } from "node:stream";
import { growingBuffer } from "./growing-buffer.js";

export interface Collecting {
  readonly bytes: Promise<Buffer | "too large">;
  /** Reads no more, and gives the memory back. The promise stays pending. */
  cancel(): void;
}

/** As `collectBytes`. `grown` is told of the memory that is taken. */
export function collecting(
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
