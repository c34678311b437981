/** A webhook at GitHub. Its id is in the address of its settings page, and in the header X-GitHub-Hook-ID. */
export type GithubHook =
  /** The webhook of a GitHub App, which has only one. */
  | { readonly app: true }
  /** `acme/shop`. */
  | { readonly repository: string; readonly hookId: number | string }
  | { readonly organization: string; readonly hookId: number | string };

/** Returns what is wrong with a hook. */
export function hookProblem(hook: unknown): string | undefined {
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

/** The path of the hook's deliveries in GitHub's API. */
export function deliveriesPath(hook: GithubHook): string {
  if ("app" in hook) return "/app/hook/deliveries";
  const { hookId } = hook;
  if ("repository" in hook) return `/repos/${hook.repository}/hooks/${hookId}/deliveries`;
  return `/orgs/${hook.organization}/hooks/${hookId}/deliveries`;
}
