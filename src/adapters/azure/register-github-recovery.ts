import { app as functionApp } from "@azure/functions";
import type { GithubRecoveryDefinition } from "../../app/github-recovery.js";
import { type AzureSettings, readAzureSettings } from "../../config/azure-settings.js";
import { processEnv, readLogLevel } from "../../config/environment.js";
import { runTimeMs } from "./function-timeout.js";
import { invocationLogger } from "./invocation-logger.js";
import { azureSecrets } from "./key-vault.js";
import { timedJobs } from "./timed-jobs.js";

/**
 * Registers the function `recoverGithub`, by a timer (`ONCEBOX_RECOVER_SCHEDULE`). It asks GitHub for failed deliveries,
 * which GitHub itself never sends again. It needs no database.
 *
 * @example
 * registerGithubRecovery({
 *   hooks: [{ repository: "acme/shop", hookId: 123456789 }],
 *   token: { from: "azure-key-vault", vault: "https://shop.vault.azure.net", name: "github-token" },
 * });
 */
export function registerGithubRecovery(definition: GithubRecoveryDefinition): void {
  registerRecovery(readAzureSettings(), () => definition);
}

/** A wrong definition is an error of each run, and not of the start: the other functions do not need it. */
export function registerRecovery(settings: AzureSettings, definition: () => GithubRecoveryDefinition): void {
  const open = async () => {
    const { githubRecoveryJob } = await import("../../app/github-recovery.js"); // few apps have it
    const recover = githubRecoveryJob(definition(), {
      resolveSecret: azureSecrets(processEnv),
      logger: invocationLogger(readLogLevel()),
    });
    return { recover, close: async () => {} };
  };
  const job = timedJobs(open, runTimeMs(settings));
  functionApp.timer("recoverGithub", {
    schedule: settings.schedules.recover,
    handler: job((ready, budget) => ready.recover(budget)),
  });
}
