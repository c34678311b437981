import { InvalidArgumentError } from "../errors.js";
import { referenceIn, type SecretReference, secretReferenceForms } from "./secret-reference.js";

export interface GithubRecoverySettings {
  readonly hooks: readonly (
    | { readonly repository: string; readonly hookId: string }
    | { readonly organization: string; readonly hookId: string }
  )[];
  /** May manage the hooks. */
  readonly token: string | SecretReference;
  /** Of GitHub Enterprise Server. */
  readonly apiUrl?: string;
}

/**
 * The webhooks whose failed deliveries GitHub is asked for, as the templates name them: `ONCEBOX_RECOVER_GITHUB` is
 * `acme/shop:123456789`, or a list of these with commas between them; a webhook of an organization is `acme:123456789`.
 * Undefined where it is not set.
 */
export function readGithubRecovery(env: NodeJS.ProcessEnv = process.env): GithubRecoverySettings | undefined {
  const filled = (name: string): string | undefined => env[name]?.trim() || undefined;
  if (!namesGithubHooks(env)) return undefined;
  const hooks = filled("ONCEBOX_RECOVER_GITHUB") ?? "";
  const apiUrl = filled("ONCEBOX_GITHUB_API_URL");
  return {
    hooks: hooks.split(",").map((hook) => toHook(hook.trim())),
    token: toToken(filled("ONCEBOX_GITHUB_TOKEN")),
    ...(apiUrl === undefined ? {} : { apiUrl }),
  };
}

export const namesGithubHooks = ({ ONCEBOX_RECOVER_GITHUB: hooks = "" }: NodeJS.ProcessEnv): boolean =>
  hooks.trim() !== "";

function toHook(text: string): GithubRecoverySettings["hooks"][number] {
  const [, owner, repository, hookId] = /^([\w.-]+)(\/[\w.-]+)?:(\d{1,20})$/.exec(text) ?? [];
  if (owner === undefined || hookId === undefined) {
    throw new InvalidArgumentError(
      "ONCEBOX_RECOVER_GITHUB must name webhooks as owner/repository:hookId or organization:hookId, with commas between them.",
    );
  }
  return repository === undefined
    ? { organization: owner, hookId }
    : { repository: `${owner}${repository}`, hookId };
}

/** No error quotes it. */
function toToken(text: string | undefined): string | SecretReference {
  if (text === undefined)
    throw new InvalidArgumentError("ONCEBOX_RECOVER_GITHUB is set, and ONCEBOX_GITHUB_TOKEN is not.");
  if (!text.startsWith("{")) return text;
  const reference = referenceIn(text);
  if (reference !== undefined) return reference;
  throw new InvalidArgumentError(`ONCEBOX_GITHUB_TOKEN must be a token or ${secretReferenceForms}.`);
}
