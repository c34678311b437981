import { type GithubRecoveryDefinition, githubRecoveryJob } from "../../app/github-recovery.js";
import { processEnv, readLogLevel } from "../../config/environment.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import type { GithubRecovery } from "../../webhooks/recovery/recover-github.js";
import { awsSecrets } from "./secrets-manager.js";
import { type JobFunction, timedFunction } from "./timed-function.js";

/**
 * Asks GitHub for failed deliveries, which GitHub itself never sends again. For a schedule. It needs no database.
 *
 * @example
 * export const handler = recoverGithubFunction({
 *   hooks: [{ repository: "acme/shop", hookId: 123456789 }],
 *   token: { from: "aws-secrets-manager", id: "shop/prod/github-token" },
 * });
 */
export function recoverGithubFunction(definition: GithubRecoveryDefinition): JobFunction<GithubRecovery> {
  const job = githubRecoveryJob(definition, {
    resolveSecret: awsSecrets(processEnv),
    logger: jsonLogger(readLogLevel()),
  });
  return timedFunction(async () => job);
}
