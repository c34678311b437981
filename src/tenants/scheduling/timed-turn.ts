import { type Budget, timeBudget } from "../../base/budget.js";
import type { Timers } from "../../base/timers.js";
import { withinTime } from "../../base/within-time.js";
import { InvalidOperationError } from "../../errors.js";

/**
 * One tenant's turn within its own time. Returns whether there may be more to do. An error quarantines the tenant.
 * `givenUp` fires when the turn did not end in time and is no longer waited for.
 */
export type TakeTurn = (id: string, turnBudget: Budget, givenUp: AbortSignal) => Promise<boolean>;

export interface TimedTurnOptions {
  readonly turn: TakeTurn;
  /** The longest time of one turn. */
  readonly turnMs: number;
  /** Of the whole run. */
  readonly budget: Budget;
  readonly timers: Timers;
}

/** `more` is "unknown" where the turn did not begin, or was cut off by the end of the run's time. */
export type TurnResult = { readonly more: boolean | "unknown" } | { readonly error: unknown };

/** A turn ends by itself when its budget does. A turn that does not is given up after this. */
const graceMs = 250;
/** Waits for a turn until its time is over. */
export async function timedTurn(
  { turn, turnMs, budget, timers }: TimedTurnOptions,
  id: string,
): Promise<TurnResult> {
  const ms = Math.min(turnMs, budget.remainingMs());
  const givenUp = new AbortController();
  const tooLate = (): Error => {
    const error = turnTimeout(turnMs);
    givenUp.abort(error);
    return error;
  };
  try {
    const running = turn(id, turnBudget(budget, ms), givenUp.signal);
    return { more: await withinTime(ms + graceMs, running, tooLate, timers) };
  } catch (error) {
    // The end of the run's time cut it off. The tenant is left to another run, and not quarantined.
    if (ms < turnMs && givenUp.signal.aborted) return { more: "unknown" };
    throw error;
  }
}

/** Ends after `ms`, measured by the clock of the run's budget. */
function turnBudget(budget: Budget, ms: number): Budget {
  const startMs = budget.remainingMs();
  if (!Number.isFinite(startMs)) return timeBudget(ms, budget.signal); // a server's budget has no end
  return {
    signal: budget.signal,
    remainingMs: () => Math.max(0, ms - (startMs - budget.remainingMs())),
  };
}

const turnTimeout = (turnMs: number) =>
  new InvalidOperationError(`The tenant's turn exceeded turnMs (${turnMs} ms).`);
