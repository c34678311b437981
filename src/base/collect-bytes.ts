import type { Readable } from "node:stream";

/**
 * Reads a stream that nobody reads yet. Holds no more than the limit and one chunk in memory; the rest of a larger stream
 * is not read. Rejects when the stream is cut off. Events instead of `for await`, which takes longer than a small body.
 */
export const collectBytes = (stream: Readable, maxBytes: number): Promise<Buffer | "too large"> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const take = (chunk: Buffer): void => {
      length += chunk.byteLength;
      chunks.push(chunk);
      if (length <= maxBytes) return;
      stream.off("data", take).pause();
      resolve("too large");
    };
    stream.on("data", take);
    stream.on("end", () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    stream.on("error", reject); // stays: an error after the end must not end the process
    stream.on("close", () => reject(new Error("The connection was closed."))); // does nothing after the end
  });
