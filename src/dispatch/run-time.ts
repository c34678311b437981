import type { Budget } from "../base/budget.js";
import type { DurationEstimate } from "./duration-estimate.js";
import type { Lateness } from "./lateness.js";

/** The time of one run: first the handlers', then a reserve to stop them and to settle. */
export interface RunTime {
  /** For handlers. Their signal fires when it is over. */
  usableMs(): number;
  /** Until handlers that did not stop are given up. */
  untilGivenUpMs(): number;
  /** Until the run returns, settled or not. */
  untilReturnMs(): number;
  /** What an answer of the store is likely to take. */
  answerMs(): number;
  /** The store has answered a call. */
  answered(ms: number): void;
}

/** The run returns so long before the deadline, settled or not; or twice as long as this machine comes late to timers. */
const shortestMarginMs = 50;

/** Below, one pause of a busy machine could eat it all; above, a slow database is not worth waiting for. */
const shortestPartMs = 50;
const longestReserveMs = 2_000;

const learnedTogether = 8;

/** At the end three calls may follow one another: acknowledge, release, abandon. */
const lastCalls = 3;

/**
 * The reserve is what was asked for, or else learned from the store's answers: one part for handlers to stop in, one
 * for the last calls, and the margin. A learned one leaves at least half of the run to the handlers.
 */
export function runTime(
  budget: Budget,
  askedMs: number | undefined,
  answers: DurationEstimate,
  late: Pick<Lateness, "worstMs">,
): RunTime {
  const halfMs = budget.remainingMs() / 2;
  const marginMs = () => Math.max(shortestMarginMs, 2 * late.worstMs());
  let answerMs = 0;
  let lastCallsMs = 0;
  let unlearned = 0;
  const learn = (): void => {
    unlearned = 0;
    answerMs = answers.quantileMs(0.9);
    lastCallsMs = Math.max(shortestPartMs, lastCalls * answerMs);
  };
  learn();
  const reserveMs = () => askedMs ?? Math.min(halfMs, longestReserveMs, marginMs() + 2 * lastCallsMs);
  const returnMs = () => Math.min(marginMs(), reserveMs() / 2);
  return {
    usableMs: () => budget.remainingMs() - reserveMs(),
    untilGivenUpMs: () => budget.remainingMs() - (reserveMs() + returnMs()) / 2,
    untilReturnMs: () => budget.remainingMs() - returnMs(),
    answerMs: () => answerMs,
    // A slow answer counts at once, quick ones from time to time: a fast database answers thousands of times a second.
    answered(ms) {
      answers.add(ms);
      if (ms > answerMs || ++unlearned >= learnedTogether) learn();
    },
  };
}
