import { setTimeout as sleep } from "node:timers/promises";
import type { Budget } from "../base/budget.js";
import type { DispatchResult } from "../dispatch/dispatch-run.js";
import { sumOfResults } from "../dispatch/result-sum.js";
import { lingerMs } from "./wake-up.js";

export interface DispatchReport {
  readonly inbox: DispatchResult | null;
  readonly outbox: DispatchResult | null;
  /** The time was used up with work left: somebody should go on. */
  readonly more: boolean;
  /** How many, where there are many. */
  readonly tenants?: Readonly<Record<"turns" | "handedOut" | "failed" | "quarantined" | "left", number>>;
}

export interface DispatchJobs {
  readonly inbox: ((budget: Budget) => Promise<DispatchResult>) | undefined;
  readonly outbox: ((budget: Budget) => Promise<DispatchResult>) | undefined;
}

/**
 * Both queues within one budget. Handlers of the inbox fill the outbox, so that one is looked at again when they
 * are done; and when this run was started by a wake-up, both are, after a moment.
 */
export async function dispatchAll(
  jobs: DispatchJobs,
  budget: Budget,
  linger: boolean,
): Promise<DispatchReport> {
  let report = await dispatchOnce(jobs, budget);
  if ((report.inbox?.acked ?? 0) > 0 && hasTime(budget)) {
    report = joined(report, await dispatchOnce({ inbox: undefined, outbox: jobs.outbox }, budget));
  }
  if (linger && !report.more && (await waited(lingerMs, budget))) {
    report = joined(report, await dispatchOnce(jobs, budget));
  }
  return report;
}

async function dispatchOnce(jobs: DispatchJobs, budget: Budget): Promise<DispatchReport> {
  const settled = await Promise.allSettled([jobs.inbox?.(budget), jobs.outbox?.(budget)]);
  // One that failed must not hide what the other did, nor end the function while the other still works.
  const failed = settled.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  const [inbox, outbox] = settled.map((result) => (result.status === "fulfilled" ? result.value : undefined));
  const more = [inbox, outbox].some((result) => result !== undefined && result.stopped !== "drained");
  return { inbox: inbox ?? null, outbox: outbox ?? null, more };
}

const hasTime = (budget: Budget): boolean => !budget.signal.aborted && budget.remainingMs() > 0;

/** False when there is not that much time. */
async function waited(ms: number, budget: Budget): Promise<boolean> {
  if (budget.signal.aborted || budget.remainingMs() < 2 * ms) return false;
  return sleep(ms, true, { signal: budget.signal }).catch(() => false);
}

function joined(first: DispatchReport, second: DispatchReport): DispatchReport {
  return {
    inbox: sumOfResults(first.inbox, second.inbox),
    outbox: sumOfResults(first.outbox, second.outbox),
    more: second.more || (first.more && second.inbox === null),
  };
}
