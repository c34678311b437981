import { type Budget, budgetWithoutLast, timeBudget, waitedWithin } from "../../base/async.js";
import { type LoggerOption, loggerOf, safeReason } from "../../base/logger.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { callGithub, type GithubCall, githubAppToken, OutOfTime } from "./github-api.js";
import { adviceFor, failedDeliveries, listDeliveries } from "./github-deliveries.js";

/** A credential, or a function that fetches it from a secret store. */
export type Credential = string | (() => string | Promise<string>);

/** Which deliveries of GitHub are redelivered. */
export interface RecoverGithubOptions {
  readonly hooks: readonly GithubHook[];
  /** For the hooks of repositories and organizations: a token that may manage their webhooks. */
  readonly token?: Credential;
  /** For the hook of a GitHub App. The private key is the text of the file that GitHub made. */
  readonly app?: { readonly id: number | string; readonly privateKey: Credential };
  /** `https://api.github.com` by default. GitHub Enterprise Server: `https://HOST/api/v3`. */
  readonly apiUrl?: string;
  /** How far back to look. 3 days by default: older deliveries cannot be asked for again. */
  readonly sinceMs?: number;
  /** False asks for every failed delivery, also for those that were tried again a moment ago. */
  readonly backOff?: boolean;
  /** Between two requests for redelivery: GitHub wants a second. */
  readonly pauseMs?: number;
  /** Lists what failed, and asks for nothing. */
  readonly dryRun?: boolean;
  readonly logger?: LoggerOption;
  readonly clock?: () => Date;
}

/** A webhook at GitHub. Its id is in the address of its settings page, and in the header X-GitHub-Hook-ID. */
export type GithubHook =
  /** The webhook of a GitHub App, which has only one. */
  | { readonly app: true }
  /** `acme/shop`. */
  | { readonly repository: string; readonly hookId: number | string }
  | { readonly organization: string; readonly hookId: number | string };

/** What a recovery of GitHub's deliveries did. */
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
  const sum = { seen: 0, failed: 0, asked: 0, later: 0, refused: 0, isComplete: true };
  const failures: string[] = [];
  for (const [index, hook] of settings.hooks.entries()) {
    const share = partOf(budget, settings.hooks.length - index);
    const path = deliveriesPath(hook);
    try {
      const report = await recoverHook(hook, settings, share);
      logger.info("github recovery", { hook: path, ...report });
      for (const name of ["seen", "failed", "asked", "later", "refused"] as const) sum[name] += report[name];
      sum.isComplete &&= report.isComplete;
    } catch (error) {
      // one hook that was deleted must not keep the others from being recovered
      failures.push(safeReason(error));
      logger.error("github recovery failed", { hook: path, reason: safeReason(error) });
    }
  }
  if (failures.length > 0) throw new InvalidOperationError(failures.join(" "));
  return sum;
}

async function recoverHook(hook: GithubHook, settings: Settings, budget: Budget): Promise<GithubRecovery> {
  const path = deliveriesPath(hook);
  const now = settings.clock().getTime();
  const token = () => tokenFor(hook, settings);
  // Half of the time for the list: what it finds must be asked for, too.
  const listing = { ...settings, since: now - settings.sinceMs, budget: partOf(budget, 2), token };
  const { deliveries, isComplete } = await listDeliveries(path, listing);
  const { due, later } = failedDeliveries(deliveries, { now, backOff: settings.backOff });
  const found = { seen: deliveries.length, failed: due.length + later, later };
  if (settings.dryRun) return { ...found, asked: 0, refused: 0, isComplete };

  let asked = 0;
  let refused = 0;
  for (const { id } of due) {
    const isInTime = asked + refused === 0 || (await waitedWithin(budget, settings.pauseMs));
    const answer = isInTime
      ? await redeliver(`${path}/${id}/attempts`, { ...settings, token: await token(), budget })
      : "out of time";
    if (answer === "out of time") return { ...found, asked, refused, isComplete: false };
    if (answer === "asked") asked++;
    else refused++;
  }
  return { ...found, asked, refused, isComplete };
}

async function redeliver(path: string, call: GithubCall): Promise<"asked" | "refused" | "out of time"> {
  try {
    const { status } = await callGithub("POST", path, call);
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
  return budgetWithoutLast(budget, rest);
}

/** The path of the hook's deliveries in GitHub's API. */
function deliveriesPath(hook: GithubHook): string {
  if ("app" in hook) return "/app/hook/deliveries";
  const { hookId } = hook;
  if ("repository" in hook) return `/repos/${hook.repository}/hooks/${hookId}/deliveries`;
  return `/orgs/${hook.organization}/hooks/${hookId}/deliveries`;
}

const recoveryDefaults = {
  apiUrl: "https://api.github.com",
  sinceMs: 3 * 86_400_000,
  backOff: true,
  pauseMs: 1_000,
  dryRun: false,
  clock: (): Date => new Date(),
} as const;

/** Returns the options with the defaults filled in. One error lists all problems. */
function checkRecoverGithub(options: RecoverGithubOptions) {
  refuseUnknown(
    options,
    [...Object.keys(recoveryDefaults), "hooks", "token", "app", "logger"],
    "recoverGithub",
  );
  const settings = { ...recoveryDefaults, ...options };
  const { hooks = [], token, app } = options ?? {};
  requireDuration(settings.sinceMs, "sinceMs");
  const problems = [
    ...(hooks.length === 0 ? ["hooks is empty"] : []),
    ...hooks.flatMap((hook, index) => {
      const problem = hookProblem(hook);
      return problem === undefined ? [] : [`hooks[${index}] ${problem}`];
    }),
    ...(hooks.some((hook) => "app" in hook) && !hasApp(app) ? ["app must have an id and a privateKey"] : []),
    ...(hooks.some((hook) => !("app" in hook)) && !isCredential(token) ? ["token is missing"] : []),
    ...(isApiUrl(settings.apiUrl) ? [] : ["apiUrl must be an https URL without query"]),
    ...(settings.pauseMs >= 0 ? [] : ["pauseMs must not be negative"]),
  ];
  if (problems.length > 0) throw new InvalidArgumentError(`recoverGithub: ${problems.join("; ")}.`);
  return settings;
}

const isCredential = (value: unknown): boolean =>
  typeof value === "function" || (typeof value === "string" && value.trim() !== "");

const hasApp = (app: RecoverGithubOptions["app"]): boolean =>
  /^[\w.-]+$/.test(String(app?.id ?? "")) && isCredential(app?.privateKey);

/** Unencrypted only on this machine, for tests. */
function isApiUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.search !== "" || url.hash !== "") return false;
  return url.protocol === "https:" || /^http:\/\/(127\.0\.0\.1|localhost|\[::1\])[:/]/.test(`${url.href}/`);
}

/** Returns what is wrong with a hook. */
function hookProblem(hook: unknown): string | undefined {
  const { app, repository, organization, hookId, ...rest } = (hook ?? {}) as Record<string, unknown>;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) return `has an unknown field ${unknown}`;
  const named = [app, repository, organization].filter((one) => one !== undefined);
  if (named.length !== 1) return "must have one of app, repository and organization";
  if (app !== undefined)
    return app === true && hookId === undefined ? undefined : "must be { app: true } for an app";
  if (!/^\d{1,20}$/.test(String(hookId ?? ""))) return "must have a hookId, which is a number";
  if (repository !== undefined && !/^[\w.-]+\/[\w.-]+$/.test(String(repository)))
    return "must have a repository like owner/name";
  return organization === undefined || /^[\w-]+$/.test(String(organization))
    ? undefined
    : "must have the name of an organization";
}
