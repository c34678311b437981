import {
  atHalfTime,
  type Budget,
  budgetWithoutLast,
  mapLimit,
  waitedWithin,
  withinTime,
} from "../../base/async.js";
import { omitUndefined } from "../../base/defined.js";
import { type Logger, type LoggerOption, loggerOf, safeReason } from "../../base/logger.js";
import { hasProgressed, sumOfResults } from "../../dispatch/dispatch-run.js";
import { ArgumentRangeError } from "../../errors.js";
import { requireDuration } from "../../queue/arguments.js";
import type { TenantRunResult } from "../scheduling/run-tenants.js";
import type { TenantDispatcher, TenantDispatchReport } from "../scheduling/tenant-dispatcher.js";
import type { FanOut, TenantBatch } from "./tenant-batch.js";

interface FanOutSettings {
  readonly distinctStores: () => Promise<readonly string[]>;
  readonly fanOut: FanOut;
  /** Tenants in a batch. The timer serves that many, or fewer, tenants itself. */
  readonly tenantBatchSize?: number;
  /** The time between two timers. */
  readonly periodMs?: number;
  readonly logger?: LoggerOption;
  /** For tests: milliseconds since 1970. */
  readonly now?: () => number;
  readonly random?: () => number;
}

export const fanOutDefaults = { tenantBatchSize: 250, periodMs: 60_000 } as const;

interface FanOutDispatcherOptions extends FanOutSettings {
  readonly dispatcher: Pick<TenantDispatcher, "run">;
}

export type FanOutReport = TenantDispatchReport & SentBatches;

/** Dispatches thousands of tenants by fan-out. */
export const fanOutDispatcher = ({ dispatcher, ...settings }: FanOutDispatcherOptions) =>
  fanOutJob<TenantDispatchReport>({
    ...settings,
    emptyReport: { inbox: null, outbox: null, turns: 0, failed: [], quarantined: [], left: [] },
    run: (budget, batch) => runTenantBatch(dispatcher, batch, budget),
    madeProgress: hasProgressed,
  });

/** Longer than the interval in which a burst of webhooks sends one batch. */
const pollAgainMs = 500;

async function runTenantBatch(
  dispatcher: Pick<TenantDispatcher, "run">,
  { tenants, woken, anyOfThem }: TenantBatch,
  budget: Budget,
): Promise<TenantDispatchReport> {
  const report = await dispatcher.run(budget, tenants, { woken: woken === true && anyOfThem !== true });
  if (!woken || report.left.length > 0 || !(await waitedWithin(budget, pollAgainMs))) return report;
  return joinReports(report, await dispatcher.run(budget, tenants));
}

/** The report of two runs over the same tenants, one after the other. */
const joinReports = (first: TenantDispatchReport, second: TenantDispatchReport): TenantDispatchReport => ({
  ...second,
  inbox: sumOfResults(first.inbox, second.inbox),
  outbox: sumOfResults(first.outbox, second.outbox),
  turns: first.turns + second.turns,
  failed: [...new Set([...first.failed, ...second.failed])],
});

interface FanOutJobOptions<Report extends TenantRunResult> extends FanOutSettings {
  /** The `job` of its tenant batches; undefined for dispatching. */
  readonly job?: TenantBatch["job"];
  /** Does the job for the tenants of a batch. */
  readonly run: (budget: Budget, batch: TenantBatch) => Promise<Report>;
  /** The report of an invocation that only sends batches. */
  readonly emptyReport: Report;
  /** Whether a run finished anything, even if it finished no tenant. */
  readonly madeProgress: (report: Report) => boolean;
}

interface FanOutJob<Report extends TenantRunResult> {
  /** The timer's invocation: sends batches of all tenants, or does the job itself where one batch is enough. */
  start(budget: Budget): Promise<Report & SentBatches>;
  /** A worker's invocation: does the job for its batch, and sends on what it did not reach. */
  work(batch: TenantBatch, budget: Budget): Promise<Report & SentBatches>;
}

interface SentBatches {
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
  const { fanOut, emptyReport, now = Date.now, random = Math.random } = options;
  const { tenantBatchSize, periodMs } = { ...fanOutDefaults, ...options };
  const logger = loggerOf(options.logger);
  const job = omitUndefined({ job: options.job });
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
  const sending = mapLimit(batches, sendsAtOnce, async (batch) => {
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

/** A message of a storage queue has 64 KB, of which base64 leaves three quarters. */
const longestBatchBytes = 40_000;

/** Batches of equal length, none above the size, and none longer than a message may be. */
export function splitIntoBatches(ids: readonly string[], size: number): readonly (readonly string[])[] {
  const even = Math.ceil(ids.length / Math.ceil(ids.length / size));
  const batches: string[][] = [];
  let bytes = longestBatchBytes;
  for (const id of ids) {
    const idBytes = Buffer.byteLength(JSON.stringify(id)) + 1;
    let batch = batches.at(-1);
    if (batch === undefined || batch.length >= even || bytes + idBytes > longestBatchBytes) {
      batch = [];
      batches.push(batch);
      bytes = 0;
    }
    batch.push(id);
    bytes += idBytes;
  }
  return batches;
}
