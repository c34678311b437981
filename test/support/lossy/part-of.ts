/** The first part of the bytes: at least one byte, never all. */
export function partOf(bytes: Buffer, fraction: number): Buffer {
  return bytes.subarray(0, 1 + Math.floor((bytes.length - 1) * fraction));
}
