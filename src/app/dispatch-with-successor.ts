import type { Budget } from "../base/budget.js";
import type { Logger } from "../base/logger.js";
import { hasProgressed } from "../dispatch/has-progressed.js";
import { type DispatchJobs, type DispatchReport, dispatchAll } from "./dispatch-all.js";
import { successorOf } from "./successor.js";
import type { WakeUp } from "./wake-up.js";

export interface SuccessorOptions {
  /** A wake-up started this run: it polls once more after a moment. */
  readonly wokenUp: boolean;
  /** Without one the timer continues. */
  readonly wakeUp: WakeUp | undefined;
  readonly logger: Logger;
}

/** Dispatches within the budget. When the time is over before the work, it wakes a successor. */
export async function dispatchWithSuccessor(
  jobs: DispatchJobs,
  budget: Budget,
  { wokenUp, wakeUp, logger }: SuccessorOptions,
): Promise<DispatchReport> {
  if (wakeUp === undefined) return dispatchAll(jobs, budget, wokenUp);
  const successor = successorOf(wakeUp, budget, logger);
  try {
    const report = await dispatchAll(jobs, successor.budgetBefore, wokenUp);
    if (report.more && hasProgressed(report)) await successor.wake();
    return report;
  } finally {
    successor.close();
  }
}
