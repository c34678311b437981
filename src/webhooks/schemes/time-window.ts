const unitsMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Returns the milliseconds of `30s`, `5m`, `1h` or `1d`, or undefined for any other text. */
export function windowMs(text: string): number | undefined {
  const [, count, unit] = /^([1-9]\d{0,4})([smhd])$/.exec(text) ?? [];
  return count === undefined ? undefined : Number(count) * unitsMs[unit as keyof typeof unitsMs];
}

/** The start of the window in which `now` lies: `2026-11-17T09:40:00Z`. */
export function timeWindow(text: string, now: Date): string | undefined {
  const ms = windowMs(text);
  if (ms === undefined) return undefined;
  return new Date(Math.floor(now.getTime() / ms) * ms).toISOString().replace(".000Z", "Z");
}
