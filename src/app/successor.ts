import type { Budget } from "../base/budget.js";
import { atHalfTime, budgetWithoutLast } from "../base/budget-parts.js";
import type { Logger } from "../base/logger.js";
import { withinTime } from "../base/within-time.js";
import type { WakeUp } from "./wake-up.js";

/** The time that is kept for waking a successor: a tenth of the run's time, and at most this. */
const longestWakeMs = 1_000;
/** The time that the function needs to return its result. */
const returnMs = 50;

/** The invocation that continues when a run's time is over before its work. */
export interface Successor {
  /** The budget of the work itself: without the time that waking takes. */
  readonly budgetBefore: Budget;
  /** Ends within the run's time, and logs a failure instead of throwing it: the timer continues the work later anyway. */
  wake(): Promise<void>;
  close(): void;
}

export function successorOf(wakeUp: WakeUp, budget: Budget, logger: Logger): Successor {
  const keptMs = Math.min(budget.remainingMs() / 10, longestWakeMs);
  const cancelPrepare = atHalfTime(budget, () => wakeUp.prepare?.());
  return {
    budgetBefore: budgetWithoutLast(budget, keptMs),
    async wake() {
      const ms = Math.min(budget.remainingMs() - returnMs, longestWakeMs);
      try {
        await withinTime(ms, wakeUp.wake(), () => new LateError());
      } catch (error) {
        logger.warn("waking a successor failed", { error: (error as Error)?.name ?? "Error" });
      }
    },
    close: cancelPrepare,
  };
}

class LateError extends Error {
  override readonly name = "late";
}
