import type { SQSBatchResponse, SQSEvent } from "aws-lambda";
import { adminJob } from "../../app/admin-job.js";
import { consumeJob } from "../../app/consume-job.js";
import type { AppDefinition } from "../../app/definition.js";
import { type DispatchReport, dispatchJob } from "../../app/dispatch-job.js";
import { type GithubRecoveryDefinition, githubRecoveryJob } from "../../app/github-recovery.js";
import { cleanupJob, type MaintenanceReport, reapJob } from "../../app/maintenance-jobs.js";
import { openApp, openReceivingApp } from "../../app/open-app.js";
import { openServiceApp, serviceJob } from "../../app/service-job.js";
import { unavailableWebhooks } from "../../app/sources.js";
import { webhookJob } from "../../app/webhook-job.js";
import { jsonLogger } from "../../base/logger.js";
import { processEnv, readGithubRecovery, readLogLevel } from "../../config/environment.js";
import { InvalidArgumentError } from "../../errors.js";
import { unavailableAdmin } from "../../http/admin-responses.js";
import { unavailableService } from "../../inbox-store/http/responses.js";
import type { GithubRecovery } from "../../webhooks/recovery/recover-github.js";
import {
  coldStart,
  type HttpFunction,
  httpFunction,
  type JobFunction,
  jobFunction,
  timedFunction,
} from "./cold-start.js";
import { requestFromEvent, requestWithEncodedPath, tenantBatchesOf, triggerOf } from "./events.js";
import { awsSecrets } from "./secrets-manager.js";
import { sqsConsumer } from "./sqs.js";

/**
 * Receives webhooks from an HTTP API (payload format 2.0) or a function URL. Middy's `use` adds middleware.
 *
 * @example
 * export const handler = webhookFunction(app);
 */
export const webhookFunction = (definition: AppDefinition): HttpFunction =>
  httpFunction({
    ready: coldStart(withoutWaiting(definition), openReceivingApp, webhookJob),
    requestOf: (event) => requestFromEvent(event),
    unavailable: (reason) => unavailableWebhooks(jsonLogger(), reason),
  });

/** A request that waits holds a whole function: strangers could use up the account's concurrency. */
const withoutWaiting = (definition: AppDefinition): AppDefinition => ({
  ...definition,
  webhooks: { wrongTokenMs: 0, ...definition.webhooks },
});

/** For a queue's trigger the report also says that no message failed. */
export type DispatchFunctionReport = DispatchReport & Partial<SQSBatchResponse>;

/** Dispatches messages. A schedule, the webhook function or a queue of wake-ups starts it. */
export function dispatchFunction(definition: AppDefinition): JobFunction<DispatchFunctionReport> {
  return jobFunction(definition, (app) => {
    const dispatch = dispatchJob(app);
    return async (budget, event): Promise<DispatchFunctionReport> => {
      const trigger = triggerOf(event);
      const options = { wokenUp: trigger !== "schedule", tenantBatches: tenantBatchesOf(event) };
      const report = await dispatch(budget, options);
      return trigger === "queue" ? { ...report, batchItemFailures: [] } : report;
    };
  });
}

/** Reaps messages whose lease has expired, because the function that claimed them died. For a schedule. */
export const reapFunction = (definition: AppDefinition): JobFunction<MaintenanceReport> =>
  jobFunction(definition, reapJob);

/** Deletes messages that were done before the retention. For a schedule. */
export const cleanupFunction = (definition: AppDefinition): JobFunction<MaintenanceReport> =>
  jobFunction(definition, cleanupJob);

/** Gives the messages of an SQS queue to the app's consumer. The trigger needs `ReportBatchItemFailures`. */
export function consumeFunction(definition: AppDefinition): JobFunction<SQSBatchResponse> {
  return jobFunction(definition, (app) => {
    const consume = sqsConsumer({ handle: consumeJob(app), logger: app.logger });
    return (budget, event) => consume(event as SQSEvent, budget);
  });
}

/**
 * Serves the inbox at `/v1/inbox` by an HTTP API (payload format 2.0) or a function URL.
 *
 * @example
 * export const handler = inboxServiceFunction(app);
 */
export const inboxServiceFunction = (definition: AppDefinition): HttpFunction =>
  httpFunction({
    ready: coldStart(definition, openServiceApp, (app) => serviceJob(app).respond),
    requestOf: (event) => requestWithEncodedPath(event, "inboxServiceFunction"),
    unavailable: (reason) => unavailableService(definition.service?.auth ?? "bearer", jsonLogger(), reason),
  });

/**
 * Serves the diagnostics API and the admin page at `/_oncebox` by an HTTP API (payload format 2.0) or a function URL.
 *
 * @example
 * export const handler = adminFunction(app);
 */
export const adminFunction = (definition: AppDefinition): HttpFunction =>
  httpFunction({
    ready: coldStart(definition, openApp, (app) => adminJob(app).respond),
    requestOf: (event) => requestWithEncodedPath(event, "adminFunction"),
    unavailable: (reason) => unavailableAdmin(jsonLogger(), reason),
  });

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
