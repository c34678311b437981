import { ArgumentRangeError } from "../errors.js";
import { processTimers, sleep } from "./timers.js";

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

/** The budget without its last `ms`, which are kept for what follows the work. */
export const budgetWithoutLast = (budget: Budget, ms: number): Budget => ({
  signal: budget.signal,
  remainingMs: () => Math.max(0, budget.remainingMs() - ms),
});

/**
 * Calls `act` when half of the budget is used: a run that has used half of its time is likely to use all of it. Returns
 * a function that cancels that. A budget without an end has no half-time.
 */
export const atHalfTime = (budget: Budget, act: () => void): (() => void) =>
  processTimers.after(budget.remainingMs() / 2, act);

/** Waits for `ms`. Returns false, possibly at once, where the budget is aborted or has less than twice that time left. */
export async function waitedWithin(budget: Budget, ms: number): Promise<boolean> {
  if (budget.signal.aborted || budget.remainingMs() < 2 * ms) return false;
  return sleep(ms, budget.signal).then(
    () => true,
    () => false,
  );
}
