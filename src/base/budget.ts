import { ArgumentRangeError } from "../errors.js";

/** What is left of a function's time. 0 means none is left, never "unknown"; a server's is Infinity. */
export interface Budget {
  /** Fires when no new work may be started; what runs may go on for what remains. */
  readonly signal: AbortSignal;
  remainingMs(): number;
}

/** A budget of so many milliseconds from now. */
export function timeBudget(ms: number, signal: AbortSignal = new AbortController().signal): Budget {
  if (typeof ms !== "number" || !(ms >= 0)) {
    throw new ArgumentRangeError(
      `timeBudget: the time must be a number of milliseconds from 0 on, not ${String(ms)}.`,
    );
  }
  const end = performance.now() + ms;
  return { signal, remainingMs: () => Math.max(0, end - performance.now()) };
}
