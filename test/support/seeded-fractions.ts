import { createHash } from "node:crypto";

/** Numbers from 0 to below 1 that look random and are the same for the same seed and index. */
export function seededFractions(seed: string, index: number): readonly [number, number, number] {
  const digest = createHash("sha256").update(`${index} ${seed}`).digest();
  const at = (offset: number) => digest.readUInt32BE(offset) / 2 ** 32;
  return [at(0), at(4), at(8)];
}
