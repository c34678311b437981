import { Readable } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** A body whose end is never sent. */
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

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** The memory of this process that something still refers to. */
export function heldBytes(): number {
  for (let i = 0; i < 3; i++) collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
