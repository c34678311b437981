import { Readable } from "node:stream";

/** A body that nobody has sent the end of. */
export const stalled = (): Readable => new Readable({ read() {} });

export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Sends bytes as a socket reads them: blocks of 64 KiB, or each byte of them by itself. */
export async function push(
  body: Readable,
  bytes: number,
  chunk: "blocks" | "bytes" = "blocks",
): Promise<void> {
  for (let sent = 0; sent < bytes; sent += 65_536) {
    const block = Buffer.allocUnsafeSlow(65_536).fill("x");
    const size = Math.min(65_536, bytes - sent);
    if (chunk === "blocks") body.push(block.subarray(0, size));
    else for (let i = 0; i < size; i++) body.push(block.subarray(i, i + 1));
    await nextTurn();
  }
}
