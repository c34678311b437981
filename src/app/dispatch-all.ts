import type { Budget } from "../base/budget.js";
import { waitedWithin } from "../base/budget-parts.js";
import type { DispatchResult } from "../dispatch/dispatch-run.js";
import { defaultPollIntervals } from "../dispatch/poll-schedule.js";
import { sumOfResults } from "../dispatch/result-sum.js";
import { lingerMs } from "./wake-up.js";

export interface DispatchReport {
  readonly inbox: DispatchResult | null;
  readonly outbox: DispatchResult | null;
  /** The time was over before the work: another run should continue. */
  readonly more: boolean;
  /** For an app with many tenants. */
  readonly tenants?: TenantCounts;
}

/** Numbers of tenants, except `turns` and `tenantBatchesSent`. */
export type TenantCounts = Readonly<
  Record<"turns" | "tenantBatchesSent" | "failed" | "quarantined" | "left", number>
>;

export interface DispatchJobs {
  readonly inbox: ((budget: Budget) => Promise<DispatchResult>) | undefined;
  readonly outbox: ((budget: Budget) => Promise<DispatchResult>) | undefined;
}

/**
 * Dispatches both queues within one budget. With `linger`, for a run that a wake-up started, both queues are dispatched
 * again after `lingerMs`.
 */
export async function dispatchAll(
  jobs: DispatchJobs,
  budget: Budget,
  linger: boolean,
): Promise<DispatchReport> {
  let report = await dispatchOnce(jobs, budget);
  if (linger && !report.more && (await waitedWithin(budget, lingerMs))) {
    report = joined(report, await dispatchOnce(jobs, budget));
  }
  return report;
}

async function dispatchOnce(jobs: DispatchJobs, budget: Budget): Promise<DispatchReport> {
  const inboxRun = jobs.inbox?.(budget);
  const outboxRun = jobs.outbox && outboxBeside(inboxRun, jobs.outbox, budget);
  const settled = await Promise.allSettled([inboxRun, outboxRun]);
  // A queue that failed must not end the function while the other still works.
  const failed = settled.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  const [inbox, outbox] = settled.map((result) => (result.status === "fulfilled" ? result.value : undefined));
  const more = [inbox, outbox].some((result) => result !== undefined && result.stopped !== "drained");
  return { inbox: inbox ?? null, outbox: outbox ?? null, more };
}

/**
 * Handlers of the inbox fill the outbox. So the outbox is dispatched again and again while the inbox's run goes on: a slow
 * handler does not delay what others have enqueued. It is dispatched a last time after a run that acknowledged messages.
 */
async function outboxBeside(
  inboxRun: Promise<DispatchResult> | undefined,
  dispatch: NonNullable<DispatchJobs["outbox"]>,
  budget: Budget,
): Promise<DispatchResult> {
  const ended = new AbortController();
  const acknowledged = inboxRun
    ?.then(({ acked }) => acked > 0)
    .catch(() => false) // its error is reported with the inbox
    .finally(() => ended.abort());
  let result = await dispatch(budget);
  if (acknowledged === undefined) return result;
  const dispatchAgain = async (): Promise<void> => {
    result = sumOfResults(result, await dispatch(budget)) ?? result;
  };
  const untilEnded: Budget = { signal: ended.signal, remainingMs: () => budget.remainingMs() };
  while (hasTime(budget) && (await waitedWithin(untilEnded, defaultPollIntervals.pollMs)))
    await dispatchAgain();
  if ((await acknowledged) && hasTime(budget)) await dispatchAgain();
  return result;
}

const hasTime = (budget: Budget): boolean => !budget.signal.aborted && budget.remainingMs() > 0;

function joined(first: DispatchReport, second: DispatchReport): DispatchReport {
  return {
    inbox: sumOfResults(first.inbox, second.inbox),
    outbox: sumOfResults(first.outbox, second.outbox),
    more: second.more,
  };
}
