import { type Budget, waitedWithin } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import type { Logger } from "../base/logger.js";
import {
  type DispatchResult,
  hasProgressed,
  type RunOptions,
  sumOfResults,
} from "../dispatch/dispatch-run.js";
import { createDispatcher } from "../dispatch/dispatcher.js";
import { defaultPollIntervals } from "../dispatch/timing.js";
import type { QueueKind } from "../queue/work-store.js";
import type { TenantBatch } from "../tenants/fan-out/tenant-batch.js";
import type { TenantDispatchers } from "../tenants/scheduling/tenant-dispatcher.js";
import type { AppParts } from "./definition.js";
import type { AppContext, OpenApp } from "./open-app.js";
import { lingerMs, successorOf, type WakeUp } from "./wake-up.js";

/** What a dispatch of an app did, by queue. */
export interface DispatchReport {
  readonly inbox: DispatchResult | null;
  readonly outbox: DispatchResult | null;
  /** The time was over before the work: another run should continue. */
  readonly more: boolean;
  /** For an app with many tenants. */
  readonly tenants?: TenantCounts;
}

/** Numbers of tenants, except `turns` and `tenantBatchesSent`. */
type TenantCounts = Readonly<
  Record<"turns" | "tenantBatchesSent" | "failed" | "quarantined" | "left", number>
>;

interface DispatchJobOptions {
  /** A wake-up started this run: it polls once more after a moment, because a burst of messages wakes once. */
  readonly wokenUp?: boolean;
  /** Serve only the tenants of these batches. */
  readonly tenantBatches?: readonly TenantBatch[];
  /** Subscribes to a queue's wake-ups while the run goes on: each of them makes it poll at once. */
  readonly onWake?: Readonly<Record<QueueKind, NonNullable<RunOptions["onWake"]>>>;
}

export type DispatchJob = (budget: Budget, options?: DispatchJobOptions) => Promise<DispatchReport>;

/** Handles incoming and outgoing messages. When the time is over before the work, it wakes a successor. */
export function dispatchJob(app: OpenApp, dispatchers?: TenantDispatchers): DispatchJob {
  const { logger, wakeUp, tenants, inbox, outbox } = app;
  if (tenants !== undefined) return tenants.dispatch;
  const { inbox: incoming, outbox: outgoing } = dispatchers ?? appDispatchers(app, app);
  return async (budget, { wokenUp = false, onWake } = {}) => {
    const options = (queue: QueueKind): RunOptions => omitUndefined({ onWake: onWake?.[queue] });
    const jobs = {
      inbox: incoming && ((limit: Budget) => incoming.run(inbox, limit, options("inbox"))),
      outbox: outgoing && ((limit: Budget) => outgoing.run(outbox, limit, options("outbox"))),
    };
    return dispatchAll(jobs, budget, { wokenUp, wakeUp, logger });
  };
}

/** The dispatchers of inbox and outbox; undefined where the app has no handlers of that kind. */
export function appDispatchers(
  parts: AppParts,
  { definition, environment, logger }: Pick<AppContext, "definition" | "environment" | "logger">,
): TenantDispatchers {
  const { dispatch, metrics, tracing, ignore, onUnhandled = "bySource", handlers, publishers } = definition;
  const { outbox } = parts;
  const sources = Object.keys({ ...definition.sources, ...environment.sources });
  const options = { ...dispatch, ...omitUndefined({ metrics, tracing, outbox }), logger };
  return {
    inbox:
      handlers &&
      createDispatcher({
        ...options,
        ...omitUndefined({ ignore, onUnhandled, sources }),
        handlers: typeof handlers === "function" ? handlers(parts) : handlers,
      }),
    outbox:
      publishers &&
      createDispatcher({
        ...options,
        handlers: typeof publishers === "function" ? publishers(parts) : publishers,
      }),
  };
}

interface SuccessorOptions {
  /** A wake-up started this run: it polls once more after `lingerMs`. */
  readonly wokenUp: boolean;
  /** Without one the timer continues. */
  readonly wakeUp: WakeUp | undefined;
  readonly logger: Logger;
}

/** Dispatches both queues within one budget. When the time is over before the work, it wakes a successor. */
export async function dispatchAll(
  jobs: DispatchJobs,
  budget: Budget,
  { wokenUp, wakeUp, logger }: SuccessorOptions,
): Promise<DispatchReport> {
  const successor = wakeUp && successorOf(wakeUp, budget, logger);
  const time = successor?.budgetBefore ?? budget;
  try {
    let report = await dispatchOnce(jobs, time);
    if (wokenUp && !report.more && (await waitedWithin(time, lingerMs)))
      report = joined(report, await dispatchOnce(jobs, time));
    if (report.more && hasProgressed(report)) await successor?.wake();
    return report;
  } finally {
    successor?.close();
  }
}

interface DispatchJobs {
  readonly inbox: ((budget: Budget) => Promise<DispatchResult>) | undefined;
  readonly outbox: ((budget: Budget) => Promise<DispatchResult>) | undefined;
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
