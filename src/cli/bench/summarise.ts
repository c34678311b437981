/** What was measured of one kind of call. */
export interface Measurement {
  readonly name: string;
  /** Callers or handlers at a time; null where there is one at a time by nature. */
  readonly concurrency: number | null;
  /** Calls, or messages for a dispatcher. */
  readonly count: number;
  readonly perSecond: number;
  /** Of one call; null for a dispatcher, whose messages share their calls. */
  readonly medianMs: number | null;
  readonly p95Ms: number | null;
}

/** The value below which this share of the sorted values lies; null without values. */
function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}

const rounded = (value: number, digits: number): number => Number(value.toFixed(digits));

/** `elapsedMs` is that of all calls together, which ran beside each other where there were several callers. */
export function summarise(
  name: string,
  concurrency: number | null,
  timesMs: readonly number[],
  elapsedMs: number,
): Measurement {
  const sorted = [...timesMs].sort((a, b) => a - b);
  const shown = (value: number | null) => (value === null ? null : rounded(value, 3));
  return {
    ...rateOf(name, concurrency, timesMs.length, elapsedMs),
    medianMs: shown(quantile(sorted, 0.5)),
    p95Ms: shown(quantile(sorted, 0.95)),
  };
}

export const rateOf = (
  name: string,
  concurrency: number | null,
  count: number,
  elapsedMs: number,
): Measurement => ({
  name,
  concurrency,
  count,
  perSecond: elapsedMs === 0 ? 0 : rounded((count / elapsedMs) * 1000, 1),
  medianMs: null,
  p95Ms: null,
});
