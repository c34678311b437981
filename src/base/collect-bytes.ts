import type { Readable } from "node:stream";
import { growingBuffer } from "./growing-buffer.js";

/**
 * Reads a stream that nobody reads yet. Holds no more than the limit and one chunk in memory; the rest of a larger stream
 * is not read. Rejects when the stream is cut off. Events instead of `for await`, which takes longer than a small body.
 * After `grown` has returned false the rest is not read either, and the promise stays pending.
 */
export const collectBytes = (
  stream: Readable,
  maxBytes: number,
  grown: (capacity: number) => boolean = () => true,
): Promise<Buffer | "too large"> =>
  new Promise((resolve, reject) => {
    const buffer = growingBuffer(maxBytes);
    const stop = () => stream.off("data", take).pause();
    const take = (chunk: Buffer): void => {
      if (buffer.length + chunk.byteLength > maxBytes) {
        stop();
        resolve("too large");
        return;
      }
      buffer.add(chunk);
      if (!grown(buffer.capacity)) stop();
    };
    stream.on("data", take);
    stream.on("end", () => resolve(buffer.bytes()));
    stream.on("error", reject); // stays: an error after the end must not end the process
    stream.on("close", () => reject(new Error("The connection was closed."))); // does nothing after the end
  });
