import { ArgumentRangeError } from "../errors.js";

const dayMs = 24 * 60 * 60 * 1_000;

export const defaultRetentionMs = 30 * dayMs;

/** A message that a broker delivers again later than this is handled again, so a shorter time is most likely a mistake. */
const shortestRetentionMs = 7 * dayMs;

export function requireRetention(value: unknown): asserts value is number {
  if (typeof value !== "number" || !(value >= shortestRetentionMs && value <= defaultRetentionMs))
    throw new ArgumentRangeError(
      `retentionMs must be from ${shortestRetentionMs} ms (7 days) to ${defaultRetentionMs} ms (30 days), not ${String(value)}.`,
    );
}
