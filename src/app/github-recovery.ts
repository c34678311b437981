import type { Budget } from "../base/async.js";
import type { Logger } from "../base/logger.js";
import { isSecretReference, type SecretReference, type SecretResolver } from "../config/secret-reference.js";
import {
  type Credential,
  type GithubRecovery,
  type RecoverGithubOptions,
  recoverGithub,
} from "../webhooks/recovery/recover-github.js";

/** As the options of `recoverGithub`, with credentials that may be references to a secret store. */
export interface GithubRecoveryDefinition extends Omit<RecoverGithubOptions, "token" | "app"> {
  readonly token?: Credential | SecretReference;
  readonly app?: { readonly id: number | string; readonly privateKey: Credential | SecretReference };
}

type GithubRecoveryJob = (budget: Budget) => Promise<GithubRecovery>;

/** Makes the job of a scheduled function. A credential is fetched for each run, so that it can be rotated. */
export function githubRecoveryJob(
  { token, app, ...options }: GithubRecoveryDefinition,
  { resolveSecret, logger }: { readonly resolveSecret: SecretResolver; readonly logger: Logger },
): GithubRecoveryJob {
  const credential = (given: Credential | SecretReference): Credential =>
    isSecretReference(given) ? () => resolveSecret(given) : given;
  const resolved: RecoverGithubOptions = {
    logger,
    ...options,
    ...(token === undefined ? {} : { token: credential(token) }),
    ...(app === undefined ? {} : { app: { ...app, privateKey: credential(app.privateKey) } }),
  };
  return (budget) => recoverGithub(resolved, budget);
}
