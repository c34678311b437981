import { setTimeout as sleep } from "node:timers/promises";
import type { Budget } from "../base/budget.js";
import type { Logger } from "../base/logger.js";
import type { WakeUp } from "./wake-up.js";

/** Of a run's time, what is kept for waking a successor: a tenth, and at most this. */
const longestWakeMs = 1_000;
/** The function has to answer, too. */
const answerMs = 50;

export interface Successor {
  /** What remains for the work itself. */
  readonly budgetBefore: Budget;
  /** Within the run's time and without failing: the timer would go on later anyway. */
  wake(): Promise<void>;
  close(): void;
}

/** Who goes on when a run's time ends before its work. */
export function successorOf(wakeUp: WakeUp, budget: Budget, logger: Logger): Successor {
  const wholeMs = budget.remainingMs();
  const keptMs = Math.min(wholeMs / 10, longestWakeMs);
  // A run that has used half of its time is likely to use all of it.
  const halfTime = Number.isFinite(wholeMs) ? setTimeout(() => wakeUp.prepare?.(), wholeMs / 2) : undefined;
  const tooLate = new AbortController();
  return {
    budgetBefore: { signal: budget.signal, remainingMs: () => Math.max(0, budget.remainingMs() - keptMs) },
    async wake() {
      const leftMs = Math.min(budget.remainingMs() - answerMs, longestWakeMs);
      const late = sleep(Math.max(0, leftMs), "late", { signal: tooLate.signal });
      late.catch(() => {}); // nobody waits for it any more
      const reason = await Promise.race([
        late,
        wakeUp.wake().then(
          () => undefined,
          (error: unknown) => (error as Error)?.name ?? "Error",
        ),
      ]);
      if (reason !== undefined) logger.warn("waking a successor failed", { error: reason });
    },
    close() {
      clearTimeout(halfTime);
      tooLate.abort();
    },
  };
}
