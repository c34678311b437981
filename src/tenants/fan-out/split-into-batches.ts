/** A message of a storage queue has 64 KB, of which base64 leaves three quarters. */
const longestBatchBytes = 40_000;

/** Batches of equal length, none above the size, and none longer than a message may be. */
export function splitIntoBatches(ids: readonly string[], size: number): readonly (readonly string[])[] {
  const even = Math.ceil(ids.length / Math.ceil(ids.length / size));
  const batches: string[][] = [];
  let bytes = longestBatchBytes;
  for (const id of ids) {
    const idBytes = Buffer.byteLength(JSON.stringify(id)) + 1;
    let batch = batches.at(-1);
    if (batch === undefined || batch.length >= even || bytes + idBytes > longestBatchBytes) {
      batch = [];
      batches.push(batch);
      bytes = 0;
    }
    batch.push(id);
    bytes += idBytes;
  }
  return batches;
}
