import { ArgumentRangeError } from "../errors.js";

/** The time that a function has left. 0 means none, never "unknown". A resident process has Infinity. */
export interface Budget {
  /** Fires when no new work may start. Running work may use the remaining time. */
  readonly signal: AbortSignal;
  remainingMs(): number;
}

/** A budget that ends `ms` milliseconds from now. */
export function timeBudget(ms: number, signal: AbortSignal = new AbortController().signal): Budget {
  if (typeof ms !== "number" || !(ms >= 0)) {
    throw new ArgumentRangeError(
      `timeBudget: the time must be a number of milliseconds, 0 or more, not ${String(ms)}.`,
    );
  }
  const end = performance.now() + ms;
  return { signal, remainingMs: () => Math.max(0, end - performance.now()) };
}
