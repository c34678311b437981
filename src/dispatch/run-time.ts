import type { Budget } from "../base/budget.js";
import type { DurationEstimate } from "./duration-estimate.js";
import type { Lateness } from "./lateness.js";

/** The time of one run: time for handlers first, then a reserve to stop them and to settle. */
export interface RunTime {
  /** Left for handlers. Their signal fires when it is 0. */
  usableMs(): number;
  /** Left until handlers that ignore their signal are given up. */
  untilGivenUpMs(): number;
  /** Left until the run returns, settled or not. */
  untilReturnMs(): number;
  /** How long a call of the store is likely to take. */
  storeCallMs(): number;
  /** Records how long a call of the store took. */
  storeCallTook(ms: number): void;
}

/** The run returns this long before the deadline, settled or not, or twice the lateness of this machine's timers if that is more. */
const shortestMarginMs = 50;

/** With less, one pause of a busy machine could use all of a part. */
const shortestPartMs = 50;
/** A database that needs a longer reserve than this is not worth the wait. */
const longestReserveMs = 2_000;

/** Fast calls change the estimate only once in so many. */
const callsPerUpdate = 8;

/** A run may end with three calls in a row: acknowledge, release, abandon. */
const lastCalls = 3;

/**
 * The reserve is `reserveMs` where that is set. Otherwise it is learned from how long the store's calls take: one part for
 * handlers to stop, one for the last calls, and the margin. A learned reserve leaves at least half of the run to handlers.
 */
export function runTime(
  budget: Budget,
  fixedReserveMs: number | undefined,
  storeCalls: DurationEstimate,
  lateness: Pick<Lateness, "worstMs">,
): RunTime {
  const halfMs = budget.remainingMs() / 2;
  const marginMs = () => Math.max(shortestMarginMs, 2 * lateness.worstMs());
  let storeCallMs = 0;
  let lastCallsMs = 0;
  let unlearned = 0;
  const learn = (): void => {
    unlearned = 0;
    storeCallMs = storeCalls.quantileMs(0.9);
    lastCallsMs = Math.max(shortestPartMs, lastCalls * storeCallMs);
  };
  learn();
  const reserveMs = () => fixedReserveMs ?? Math.min(halfMs, longestReserveMs, marginMs() + 2 * lastCallsMs);
  const returnMs = () => Math.min(marginMs(), reserveMs() / 2);
  return {
    usableMs: () => budget.remainingMs() - reserveMs(),
    untilGivenUpMs: () => budget.remainingMs() - (reserveMs() + returnMs()) / 2,
    untilReturnMs: () => budget.remainingMs() - returnMs(),
    storeCallMs: () => storeCallMs,
    // A slow call counts at once, fast calls in groups: a fast database takes thousands of calls a second.
    storeCallTook(ms) {
      storeCalls.add(ms);
      if (ms > storeCallMs || ++unlearned >= callsPerUpdate) learn();
    },
  };
}
