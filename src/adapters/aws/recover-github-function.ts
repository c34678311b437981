import { type GithubRecoveryDefinition, githubRecoveryJob } from "../../app/github-recovery.js";
import { processEnv, readLogLevel } from "../../config/environment.js";
import { readGithubRecovery } from "../../config/github-recovery-settings.js";
import { InvalidArgumentError } from "../../errors.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import type { GithubRecovery } from "../../webhooks/recovery/recover-github.js";
import { awsSecrets } from "./secrets-manager.js";
import { type JobFunction, timedFunction } from "./timed-function.js";

/**
 * Asks GitHub for failed deliveries, which GitHub itself never sends again. For a schedule. It needs no database. Without
 * a definition the environment has it: `ONCEBOX_RECOVER_GITHUB`, `ONCEBOX_GITHUB_TOKEN`.
 *
 * @example
 * export const handler = recoverGithubFunction({
 *   hooks: [{ repository: "acme/shop", hookId: 123456789 }],
 *   token: { from: "aws-secrets-manager", id: "shop/prod/github-token" },
 * });
 */
export function recoverGithubFunction(
  definition: GithubRecoveryDefinition | undefined = readGithubRecovery(processEnv),
): JobFunction<GithubRecovery> {
  if (definition === undefined)
    throw new InvalidArgumentError("ONCEBOX_RECOVER_GITHUB, the webhooks at GitHub, is not set.");
  const job = githubRecoveryJob(definition, {
    resolveSecret: awsSecrets(processEnv),
    logger: jsonLogger(readLogLevel()),
  });
  return timedFunction(async () => job);
}
