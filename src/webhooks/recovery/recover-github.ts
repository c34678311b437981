import { type Budget, timeBudget } from "../../base/budget.js";
import { waitedWithin } from "../../base/budget-parts.js";
import { loggerOf } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import { InvalidOperationError } from "../../errors.js";
import { failedDeliveries } from "./failed-deliveries.js";
import { createGithubApi, type GithubApi, type GithubCall, OutOfTime } from "./github-api.js";
import { githubAppToken } from "./github-app-token.js";
import { deliveriesPath, type GithubHook } from "./github-hook.js";
import { adviceFor, listDeliveries } from "./list-deliveries.js";
import { checkRecoverGithub, type RecoverGithubOptions } from "./recover-github-options.js";

export interface GithubRecovery {
  /** Attempts that GitHub has listed. */
  readonly seen: number;
  /** Events of which no attempt succeeded. */
  readonly failed: number;
  /** Those of them that GitHub was asked to deliver again. */
  readonly asked: number;
  /** Those that were tried again lately, and that a later run asks for. */
  readonly later: number;
  /** Those that GitHub does not deliver again, because they are too old. */
  readonly refused: number;
  /** False where the time did not suffice, or GitHub's limit of requests is reached: the next run goes on. */
  readonly isComplete: boolean;
}

type Settings = ReturnType<typeof checkRecoverGithub>;

/**
 * Asks GitHub to deliver again what no attempt has delivered: GitHub itself never tries again. It keeps no state, so that
 * it may run on a schedule and by hand. What arrives twice is a duplicate.
 *
 * @example
 * await recoverGithub({ hooks: [{ repository: "acme/shop", hookId: 1 }], token: () => readFromVault("github") });
 */
export async function recoverGithub(
  options: RecoverGithubOptions,
  budget: Budget = timeBudget(60_000),
): Promise<GithubRecovery> {
  const settings = checkRecoverGithub(options);
  const logger = loggerOf(options.logger);
  const api = createGithubApi(settings);
  let sum: GithubRecovery = { seen: 0, failed: 0, asked: 0, later: 0, refused: 0, isComplete: true };
  const failures: string[] = [];
  for (const [index, hook] of settings.hooks.entries()) {
    const share = partOf(budget, settings.hooks.length - index);
    const path = deliveriesPath(hook);
    try {
      const report = await recoverHook(api, hook, settings, share);
      logger.info("github recovery", { hook: path, ...report });
      sum = added(sum, report);
    } catch (error) {
      // one hook that was deleted must not keep the others from being recovered
      failures.push(safeReason(error));
      logger.error("github recovery failed", { hook: path, reason: safeReason(error) });
    }
  }
  if (failures.length > 0) throw new InvalidOperationError(failures.join(" "));
  return sum;
}

async function recoverHook(
  api: GithubApi,
  hook: GithubHook,
  settings: Settings,
  budget: Budget,
): Promise<GithubRecovery> {
  const path = deliveriesPath(hook);
  const now = settings.clock().getTime();
  const token = () => tokenFor(hook, settings);
  // Half of the time for the list: what it finds must be asked for, too.
  const listing = { since: now - settings.sinceMs, budget: partOf(budget, 2), token };
  const { deliveries, isComplete } = await listDeliveries(api, path, listing);
  const { due, later } = failedDeliveries(deliveries, { now, backOff: settings.backOff });
  const found = { seen: deliveries.length, failed: due.length + later, later };
  if (settings.dryRun) return { ...found, asked: 0, refused: 0, isComplete };

  let asked = 0;
  let refused = 0;
  for (const { id } of due) {
    const isInTime = asked + refused === 0 || (await waitedWithin(budget, settings.pauseMs));
    const answer = isInTime
      ? await redeliver(api, `${path}/${id}/attempts`, { token: await token(), budget })
      : "out of time";
    if (answer === "out of time") return { ...found, asked, refused, isComplete: false };
    if (answer === "asked") asked++;
    else refused++;
  }
  return { ...found, asked, refused, isComplete };
}

async function redeliver(
  api: GithubApi,
  path: string,
  call: GithubCall,
): Promise<"asked" | "refused" | "out of time"> {
  try {
    const { status } = await api.request("POST", path, call);
    if (status >= 200 && status < 300) return "asked";
    if (status === 401 || status === 403 || status >= 500)
      throw new InvalidOperationError(`GitHub answered ${status} to POST ${path}. ${adviceFor(status)}`);
    return "refused";
  } catch (error) {
    if (error instanceof OutOfTime) return "out of time";
    throw error;
  }
}

/** An app's token is made anew each time, because it is short-lived. */
async function tokenFor(hook: GithubHook, { token, app, clock }: Settings): Promise<string> {
  const credential = "app" in hook ? app!.privateKey : token!;
  const text = (typeof credential === "function" ? await credential() : credential)?.trim();
  if (!text) throw new InvalidOperationError("recoverGithub: the credential that was fetched is empty.");
  return "app" in hook ? githubAppToken(app!.id, text, clock()) : text;
}

/** One of `parts` equal parts of the time that is left. */
function partOf(budget: Budget, parts: number): Budget {
  const left = budget.remainingMs();
  const rest = left === Infinity ? 0 : left * (1 - 1 / parts);
  return { signal: budget.signal, remainingMs: () => Math.max(0, budget.remainingMs() - rest) };
}

const added = (one: GithubRecovery, other: GithubRecovery): GithubRecovery => ({
  seen: one.seen + other.seen,
  failed: one.failed + other.failed,
  asked: one.asked + other.asked,
  later: one.later + other.later,
  refused: one.refused + other.refused,
  isComplete: one.isComplete && other.isComplete,
});
