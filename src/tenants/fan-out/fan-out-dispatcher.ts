import type { Budget } from "../../base/budget.js";
import { waitedWithin } from "../../base/budget-parts.js";
import { type LoggerOption, loggerOf } from "../../base/logger.js";
import { hasProgressed } from "../../dispatch/has-progressed.js";
import { joinReports } from "../scheduling/join-reports.js";
import type { TenantDispatcher, TenantDispatchReport } from "../scheduling/tenant-dispatcher.js";
import { type FanOutJob, fanOutJob, type SentBatches } from "./fan-out-job.js";
import type { FanOut, TenantBatch } from "./tenant-batch.js";

export interface FanOutOptions {
  readonly dispatcher: Pick<TenantDispatcher, "run">;
  readonly distinctStores: () => Promise<readonly string[]>;
  readonly fanOut: FanOut;
  /** Tenants in a batch: 250 by default. The timer serves that many, or fewer, tenants itself. */
  readonly tenantBatchSize?: number;
  /** The time between two timers: 60 s by default. */
  readonly periodMs?: number;
  readonly logger?: LoggerOption;
  /** For tests: milliseconds since 1970. */
  readonly now?: () => number;
  readonly random?: () => number;
}

export type FanOutReport = TenantDispatchReport & SentBatches;
export type FanOutDispatcher = FanOutJob<TenantDispatchReport>;

export const fanOutDefaults = { tenantBatchSize: 250, periodMs: 60_000 } as const;

const emptyReport: TenantDispatchReport = {
  inbox: null,
  outbox: null,
  turns: 0,
  failed: [],
  quarantined: [],
  left: [],
};

/** Dispatches thousands of tenants by fan-out. */
export function createFanOutDispatcher(options: FanOutOptions): FanOutDispatcher {
  const { dispatcher } = options;
  return fanOutJob({
    now: Date.now,
    random: Math.random,
    ...fanOutDefaults,
    ...options,
    logger: loggerOf(options.logger),
    emptyReport,
    run: (budget, batch) => runTenantBatch(dispatcher, batch, budget),
    madeProgress: hasProgressed,
  });
}

/** Longer than the interval in which a burst of webhooks sends one batch. */
const pollAgainMs = 500;

async function runTenantBatch(
  dispatcher: FanOutOptions["dispatcher"],
  { tenants, woken, anyOfThem }: TenantBatch,
  budget: Budget,
): Promise<TenantDispatchReport> {
  const report = await dispatcher.run(budget, tenants, { woken: woken === true && anyOfThem !== true });
  if (!woken || report.left.length > 0 || !(await waitedWithin(budget, pollAgainMs))) return report;
  return joinReports(report, await dispatcher.run(budget, tenants));
}
