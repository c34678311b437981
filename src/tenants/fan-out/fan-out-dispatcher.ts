import { setTimeout as sleep } from "node:timers/promises";
import type { Budget } from "../../base/budget.js";
import { guardedLogger, type Logger, silentLogger } from "../../base/logger.js";
import { joinedReports } from "../scheduling/report-sum.js";
import type { TenantDispatcher, TenantDispatchReport } from "../scheduling/tenant-dispatcher.js";
import { type FanOutJob, fanOutJob, type HandedOut } from "./fan-out-job.js";
import type { FanOut, TenantBatch } from "./tenant-batch.js";

export interface FanOutOptions {
  readonly dispatcher: Pick<TenantDispatcher, "run">;
  readonly distinctStores: () => Promise<readonly string[]>;
  readonly fanOut: FanOut;
  /** Tenants in a share: 250 by default. No more than that, and the timer does them itself. */
  readonly tenantBatchSize?: number;
  /** How often the timer comes: 60 s by default. */
  readonly periodMs?: number;
  readonly logger?: Logger;
  /** For tests: milliseconds since 1970. */
  readonly now?: () => number;
  readonly random?: () => number;
}

export type FanOutReport = TenantDispatchReport & HandedOut;
export type FanOutDispatcher = FanOutJob<TenantDispatchReport>;

export const fanOutDefaults = { tenantBatchSize: 250, periodMs: 60_000 } as const;

const nothing: TenantDispatchReport = {
  inbox: null,
  outbox: null,
  turns: 0,
  failed: [],
  quarantined: [],
  left: [],
};

/** Dispatches thousands of tenants through the platform. */
export function createFanOutDispatcher(options: FanOutOptions): FanOutDispatcher {
  const { dispatcher } = options;
  return fanOutJob({
    now: Date.now,
    random: Math.random,
    ...fanOutDefaults,
    ...options,
    logger: guardedLogger(options.logger ?? silentLogger),
    nothing,
    run: (budget, share) => runTenantBatch(dispatcher, share, budget),
    hasDone: ({ inbox, outbox }) =>
      [inbox, outbox].some(
        (result) => result !== null && result.acked + result.abandoned + result.failed > 0,
      ),
  });
}

/** Longer than the interval in which webhooks of a burst wake nobody anew. */
const lookAgainMs = 500;

async function runTenantBatch(
  dispatcher: FanOutOptions["dispatcher"],
  { tenants, woken, anyOfThem }: TenantBatch,
  budget: Budget,
): Promise<TenantDispatchReport> {
  const report = await dispatcher.run(budget, tenants, { woken: woken === true && anyOfThem !== true });
  if (!woken || report.left.length > 0 || budget.remainingMs() < 2 * lookAgainMs) return report;
  const waited = await sleep(lookAgainMs, true, { signal: budget.signal }).catch(() => false);
  return waited ? joinedReports(report, await dispatcher.run(budget, tenants)) : report;
}
