import type { LoggerOption } from "../../base/logger.js";
import { InvalidArgumentError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import { type GithubHook, hookProblem } from "./github-hook.js";

/** A credential, or a function that fetches it from a secret store. */
export type Credential = string | (() => string | Promise<string>);

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

const defaults = {
  apiUrl: "https://api.github.com",
  sinceMs: 3 * 86_400_000,
  backOff: true,
  pauseMs: 1_000,
  dryRun: false,
  clock: (): Date => new Date(),
} as const;

/** Returns the options with the defaults filled in. One error lists all problems. */
export function checkRecoverGithub(options: RecoverGithubOptions) {
  refuseUnknown(options, [...Object.keys(defaults), "hooks", "token", "app", "logger"], "recoverGithub");
  const settings = { ...defaults, ...options };
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
