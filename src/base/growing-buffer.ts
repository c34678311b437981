export interface GrowingBuffer {
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
export function growingBuffer(maxBytes: number): GrowingBuffer {
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
