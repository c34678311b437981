import type { Budget } from "../base/async.js";
import { safeReason } from "../base/logger.js";
import { bearerTokens, secretProblem } from "../http/bearer-tokens.js";
import type { PlainRoute } from "../http/plain.js";
import { apiResults, type HttpResult, requestLog } from "../http/results.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import type { AppCron } from "./definition.js";
import type { DispatchReport } from "./dispatch-job.js";
import type { AppJobs } from "./jobs.js";
import type { MaintenanceReport } from "./maintenance-jobs.js";
import type { OpenApp } from "./open-app.js";
import { tokenSecrets } from "./sources.js";

/** What a call of the dispatch route has done. */
export interface CronReport {
  readonly reap: MaintenanceReport;
  readonly dispatch: DispatchReport;
  /** Null where this process has cleaned up within the last hour, or no time was left. */
  readonly cleanup: MaintenanceReport | null;
}

/** By POST, and by GET for hosts whose cron sends that. */
const methods = ["GET", "POST"];
/** Cleaning up more often would find little to delete. */
const cleanupEveryMs = 3_600_000;
const tokenTimes = { fetchMs: 5_000, maxAgeMs: 5 * 60_000 } as const;

const results = apiResults({ realm: "oncebox dispatch" });

/**
 * For hosts that have a cron and no queue: a request with the right token runs the jobs within a time that the host allows.
 * Calls that overlap share the work by their leases.
 */
export function dispatchRoute(
  { logger, resolveSecret }: OpenApp,
  jobs: Pick<AppJobs, "reap" | "cleanup" | "dispatch">,
  cron: AppCron,
  newBudget: () => Budget,
): PlainRoute {
  refuseUnknown(cron, ["tokens", "timeMs"], "cron");
  if (cron.timeMs !== undefined) requireDuration(cron.timeMs, "cron: timeMs");
  const findToken = bearerTokens(
    tokenSecrets(cron.tokens, resolveSecret),
    {
      ...tokenTimes,
      clock: () => new Date(),
      onStale: () => logger.warn("the cron's tokens could not be refreshed; the last ones are used", {}),
    },
    { owner: "cron", problemOf: secretProblem },
  );
  const run = cronRun(jobs);
  const log = requestLog(logger, "cron", Date.now);
  /** What a caller without a right token gets. */
  const refusalOf = async (method: string, authorization: string | null): Promise<HttpResult | undefined> => {
    if (!methods.includes(method)) return results.wrongMethod(method, methods);
    return (await findToken(authorization)) === undefined ? results.unauthorized() : undefined;
  };
  return async ({ method, headers }) => {
    const refusal = await refusalOf(method, headers.get("authorization")).catch(unavailable);
    const result =
      refusal ??
      (await run(newBudget()).then((report) => results.json(200, "Dispatched", report), unavailable));
    log(result, { subject: {}, level: "info", isProven: refusal === undefined });
    return result.response;
  };
}

const unavailable = (error: unknown): HttpResult =>
  results.unavailable("The database or the secret store is away. Call again.", safeReason(error));

/** Reaps first, because what it frees is dispatched then. */
function cronRun({ reap, dispatch, cleanup }: Pick<AppJobs, "reap" | "cleanup" | "dispatch">) {
  let cleanedAt = Number.NEGATIVE_INFINITY;
  return async (budget: Budget): Promise<CronReport> => {
    const reaped = await reap(budget);
    const dispatched = await dispatch(budget);
    const isDue = performance.now() - cleanedAt >= cleanupEveryMs && !dispatched.more;
    if (!isDue) return { reap: reaped, dispatch: dispatched, cleanup: null };
    cleanedAt = performance.now();
    return { reap: reaped, dispatch: dispatched, cleanup: await cleanup(budget) };
  };
}
