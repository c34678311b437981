import type { Budget } from "../../base/budget.js";
import { atHalfTime, budgetWithoutLast } from "../../base/budget-parts.js";
import { defined } from "../../base/defined.js";
import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { severalAtOnce } from "../../base/several-at-once.js";
import { withinTime } from "../../base/within-time.js";
import { ArgumentRangeError } from "../../errors.js";
import { requireDuration } from "../../queue/arguments.js";
import type { TenantRunResult } from "../scheduling/run-tenants.js";
import { splitIntoBatches } from "./split-into-batches.js";
import type { FanOut, TenantBatch } from "./tenant-batch.js";

export interface FanOutJobOptions<Report extends TenantRunResult> {
  /** The `job` of its tenant batches; undefined for dispatching. */
  readonly job?: TenantBatch["job"];
  /** Does the job for the tenants of a batch. */
  readonly run: (budget: Budget, batch: TenantBatch) => Promise<Report>;
  /** The report of an invocation that only sends batches. */
  readonly emptyReport: Report;
  /** Whether a run finished anything, even if it finished no tenant. */
  readonly madeProgress: (report: Report) => boolean;
  readonly distinctStores: () => Promise<readonly string[]>;
  readonly fanOut: FanOut;
  readonly tenantBatchSize: number;
  /** The time between two timers. */
  readonly periodMs: number;
  readonly logger: Logger;
  readonly now: () => number;
  readonly random: () => number;
}

export interface FanOutJob<Report extends TenantRunResult> {
  /** The timer's invocation: sends batches of all tenants, or does the job itself where one batch is enough. */
  start(budget: Budget): Promise<Report & SentBatches>;
  /** A worker's invocation: does the job for its batch, and sends on what it did not reach. */
  work(batch: TenantBatch, budget: Budget): Promise<Report & SentBatches>;
}

export interface SentBatches {
  /** Tenant batches that this invocation sent to workers. */
  readonly tenantBatchesSent: number;
}

/** Calls of the cloud at once. */
const sendsAtOnce = 10;
/** The time that the function needs to return its result. */
const returnMs = 50;
/** At most this, and a tenth of the time, is kept for sending on what was not reached. */
const longestSendMs = 2_000;

/**
 * Does a job for thousands of tenants through the platform: the timer lists the tenants and sends batches of them to
 * workers. A batch that could not be sent, or that was lost, is part of what the next timer sends.
 */
export function fanOutJob<Report extends TenantRunResult>(
  options: FanOutJobOptions<Report>,
): FanOutJob<Report> {
  const { fanOut, tenantBatchSize, periodMs, emptyReport, logger, now, random } = options;
  const job = defined({ job: options.job });
  requireTenantBatchSize(tenantBatchSize);
  requireDuration(periodMs, "periodMs");

  const send = async (ids: readonly string[], until: number, budget: Budget): Promise<number> => {
    const batches = splitIntoBatches(ids, tenantBatchSize).map((tenants) => ({ tenants, until, ...job }));
    const sent = await sendInTime(fanOut, batches, budget, logger);
    if (sent.unsent > 0)
      logger.warn("the time was over before all tenant batches were sent", { tenantBatches: sent.unsent });
    return sent.count;
  };

  const work: FanOutJob<Report>["work"] = async (batch, budget) => {
    if (options.job === undefined && now() >= batch.until) {
      // Otherwise the queue of batches would grow while workers cannot keep up.
      logger.warn("a tenant batch came too late and is dropped; the next timer has sent its tenants again", {
        tenants: batch.tenants.length,
      });
      return { ...emptyReport, tenantBatchesSent: 0 };
    }
    const keptMs = Math.min(budget.remainingMs() / 10, longestSendMs);
    const cancelPrepare = atHalfTime(budget, () => fanOut.prepare?.());
    const report = await options.run(budgetWithoutLast(budget, keptMs), batch).finally(cancelPrepare);
    // A batch of which a whole run could finish nothing would be sent on for ever: it is left to the timer.
    const hasProgressed = report.left.length < batch.tenants.length || options.madeProgress(report);
    const sendsOn = report.left.length > 0 && now() < batch.until && hasProgressed;
    return { ...report, tenantBatchesSent: sendsOn ? await send(report.left, batch.until, budget) : 0 };
  };

  return {
    work,
    async start(budget) {
      const ids = await options.distinctStores();
      const until = now() + periodMs;
      if (ids.length <= tenantBatchSize) return work({ tenants: ids, until, ...job }, budget);
      // In a new order each time, so that slow tenants do not always share a batch.
      const keyed = ids.map((id) => [random(), id] as const).sort(([a], [b]) => a - b);
      const shuffled = keyed.map(([, id]) => id);
      return { ...emptyReport, tenantBatchesSent: await send(shuffled, until, budget) };
    },
  };
}

/** Ends before the budget does: a function that is killed logs nothing. */
async function sendInTime(
  fanOut: FanOut,
  batches: readonly TenantBatch[],
  budget: Budget,
  logger: Logger,
): Promise<{ readonly count: number; readonly unsent: number }> {
  let count = 0;
  let failed = 0;
  const sending = severalAtOnce(batches, sendsAtOnce, async (batch) => {
    if (budget.remainingMs() <= returnMs) return;
    try {
      await fanOut.send(batch);
      count++;
    } catch (error) {
      failed++;
      logger.error("a tenant batch was not sent; the next timer sends its tenants again", {
        tenants: batch.tenants.length,
        reason: safeReason(error),
      });
    }
  });
  await withinTime(budget.remainingMs() - returnMs, sending, () => new Error("late")).catch(() => {});
  return { count, unsent: batches.length - count - failed };
}

export function requireTenantBatchSize(tenantBatchSize: number): void {
  if (!Number.isInteger(tenantBatchSize) || tenantBatchSize < 1) {
    throw new ArgumentRangeError(
      `tenantBatchSize must be a whole number from 1 on, not ${String(tenantBatchSize)}.`,
    );
  }
}
