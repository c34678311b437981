import { app as functionApp, type HttpRequest } from "@azure/functions";
import type { AppDefinition } from "../../app/app-definition.js";
import type { App } from "../../app/create-app.js";
import { defined } from "../../base/defined.js";
import { safeReason } from "../../base/safe-reason.js";
import { toWebResponse } from "../../base/to-web-response.js";
import { readAzureSettings } from "../../config/azure-settings.js";
import { processEnv } from "../../config/environment.js";
import { type FunctionGroup, readFunctionGroups } from "../../config/function-groups.js";
import { namesGithubHooks, readGithubRecovery } from "../../config/github-recovery-settings.js";
import { refusedResponse } from "../../webhooks/responses.js";
import { coldStart } from "./cold-start.js";
import { runTimeMs } from "./function-timeout.js";
import { allMethods, requestFromHost, toHttpResponse } from "./http-trigger.js";
import { inInvocation, invocationLogger } from "./invocation-logger.js";
import { registerAdmin } from "./register-admin.js";
import { registerRecovery } from "./register-github-recovery.js";
import { registerInboxService } from "./register-inbox-service.js";
import { registerMigration } from "./register-migration.js";
import { registerWork } from "./register-work.js";
import { timedJobs } from "./timed-jobs.js";

/**
 * Registers an app's functions with the host: all of them, or the groups that `ONCEBOX_FUNCTIONS` names. They share one
 * app per process.
 * - `webhook`: by HTTP
 * - `dispatch`, `reap`, `cleanup`: by timers
 * - `wakeup`: dispatches too, by the queue that `ONCEBOX_WAKE_QUEUE` names
 * - `inbox-service`, `inbox-service-document`: by HTTP, if the app has a service
 * - `admin`, `admin-alias`: by HTTP, if the app has a diagnostics API
 * - `consume`, `consume-bus`: by the queues that `ONCEBOX_CONSUME_QUEUE` and `ONCEBOX_CONSUME_BUS_QUEUE` name, if the app
 *   has a consumer
 * - `recoverGithub`: by a timer, for the webhooks that `ONCEBOX_RECOVER_GITHUB` names
 * - `migrate`: by HTTP, only if `ONCEBOX_FUNCTIONS` names it
 *
 * @example
 * // main.ts, which package.json's "main" names
 * import { registerFunctions } from "oncebox/azure";
 * import app from "./app.js";
 *
 * registerFunctions(app);
 */
export function registerFunctions(definition: AppDefinition): void {
  const groups = groupsOf(processEnv.ONCEBOX_FUNCTIONS);
  const app = coldStart(onlyGroups(definition, groups));
  // HTTP is registered before anything can throw. An error before the first registration leaves an app without functions,
  // which answers 404 to every request. An error after it stops the start, and the host reports it.
  if (groups.has("webhook")) registerWebhook(app);
  if (groups.has("service") && definition.service !== undefined)
    registerInboxService(app, definition.service);
  if (groups.has("admin") && definition.admin !== undefined) registerAdmin(app);
  const settings = readAzureSettings();
  const job = timedJobs(app, runTimeMs(settings));
  if (groups.has("migrate")) registerMigration(app, settings);
  if (groups.has("work")) registerWork(app, definition, settings, job);
  if (groups.has("work") && namesGithubHooks(processEnv))
    registerRecovery(settings, () => readGithubRecovery(processEnv)!);
}

/** All groups for a wrong setting, which is an error later. */
function groupsOf(text: string | undefined): ReadonlySet<FunctionGroup> {
  try {
    return readFunctionGroups(text);
  } catch {
    return readFunctionGroups(undefined);
  }
}

/** Without what the other groups serve: this function app may not read their secrets. */
function onlyGroups(definition: AppDefinition, groups: ReadonlySet<FunctionGroup>): AppDefinition {
  const { service, admin, ...rest } = definition;
  return {
    ...rest,
    ...defined({ service: groups.has("service") ? service : undefined }),
    ...defined({ admin: groups.has("admin") ? admin : undefined }),
  };
}

function registerWebhook(app: () => Promise<App>): void {
  functionApp.http("webhook", {
    route: "webhooks/{source}/{tenant?}",
    methods: [...allMethods],
    authLevel: "anonymous", // the signature authenticates the sender
    handler: (request, context) => inInvocation(context, () => receive(app, request)),
  });
}

async function receive(app: () => Promise<App>, request: HttpRequest) {
  let running: App;
  try {
    running = await app();
  } catch (error) {
    // The next request tries again, in case a secret store was away.
    const reason = safeReason(error);
    invocationLogger("info").error("webhook", { outcome: "unavailable", status: 503, reason });
    return toHttpResponse(toWebResponse(refusedResponse("unavailable")));
  }
  return toHttpResponse(await running.webhook(requestFromHost(request)));
}
