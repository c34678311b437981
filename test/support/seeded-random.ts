import { createHash } from "node:crypto";

/** Numbers from 0 to below 1 that look random and are the same for the same seed: mulberry32, quick enough for millions. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Numbers from 0 to below 1 that look random and are the same for the same seed and index. */
export function seededFractions(seed: string, index: number): readonly [number, number, number] {
  const digest = createHash("sha256").update(`${index} ${seed}`).digest();
  const at = (offset: number) => digest.readUInt32BE(offset) / 2 ** 32;
  return [at(0), at(4), at(8)];
}
