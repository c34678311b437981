import { gunzipSync, inflateSync } from "node:zlib";

/** Before each message of gRPC: whether it is compressed, and its length. */
export const frameHeadBytes = 5;

const decompress = { gzip: gunzipSync, deflate: inflateSync } as const;
export const knownEncodings = ["identity", ...Object.keys(decompress)].join(",");

export function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUInt32BE(message.byteLength, 1);
  return Buffer.concat([head, message]);
}

/** Returns the only message of a call, or why it cannot. A compressed one has no more than `maxBytes` when it is unpacked. */
export function unframed(
  bytes: Buffer,
  encoding: string | undefined,
  maxBytes: number,
): Buffer | "malformed" | "too large" | "unknown encoding" {
  const isWhole = bytes.byteLength >= frameHeadBytes;
  if (!isWhole || bytes.readUInt32BE(1) !== bytes.byteLength - frameHeadBytes) return "malformed";
  const message = bytes.subarray(frameHeadBytes);
  if (bytes[0] === 0) return message;
  if (!Object.hasOwn(decompress, encoding ?? "")) return "unknown encoding";
  try {
    return decompress[encoding as keyof typeof decompress](message, { maxOutputLength: maxBytes });
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE" ? "too large" : "malformed";
  }
}
