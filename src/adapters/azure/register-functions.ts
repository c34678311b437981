import { app as functionApp, type HttpRequest } from "@azure/functions";
import type { AppDefinition } from "../../app/app-definition.js";
import type { App } from "../../app/create-app.js";
import { safeReason } from "../../base/safe-reason.js";
import { toWebResponse } from "../../base/to-web-response.js";
import { readAzureSettings } from "../../config/azure-settings.js";
import { tenantBatchesIn } from "../../tenants/fan-out/tenant-batch.js";
import { refusedResponse } from "../../webhooks/responses.js";
import { coldStart } from "./cold-start.js";
import { runTimeMs } from "./function-timeout.js";
import { allMethods, requestFromHost, toHttpResponse } from "./http-trigger.js";
import { inInvocation, invocationLogger } from "./invocation-logger.js";
import { storageQueueHandler } from "./middleware.js";
import { registerAdmin } from "./register-admin.js";
import { registerInboxService } from "./register-inbox-service.js";
import { timedJobs } from "./timed-jobs.js";

/**
 * Registers an app's functions with the host. They share one app per process.
 * - `webhook`: by HTTP
 * - `dispatch`, `reap`, `cleanup`: by timers
 * - `wakeup`: dispatches too, by the queue that `ONCEBOX_WAKE_QUEUE` names
 * - `inbox-service`, `inbox-service-document`: by HTTP, if the app has a service
 * - `admin`, `admin-alias`: by HTTP, if the app has a diagnostics API
 * - `consume`: by the queue that `ONCEBOX_CONSUME_QUEUE` names, if the app has a consumer
 *
 * @example
 * // main.ts, which package.json's "main" names
 * import { registerFunctions } from "oncebox/azure";
 * import app from "./app.js";
 *
 * registerFunctions(app);
 */
export function registerFunctions(definition: AppDefinition): void {
  const app = coldStart(definition);
  // Registered before anything can throw. An error before the first registration leaves an app without functions, which
  // answers 404 to every request. An error after it stops the start, and the host reports it.
  functionApp.http("webhook", {
    route: "webhooks/{source}/{tenant?}",
    methods: [...allMethods],
    authLevel: "anonymous", // the signature authenticates the sender
    handler: (request, context) => inInvocation(context, () => receive(app, request)),
  });
  if (definition.service !== undefined) registerInboxService(app, definition.service);
  if (definition.admin !== undefined) registerAdmin(app);

  const settings = readAzureSettings();
  const job = timedJobs(app, runTimeMs(settings));

  functionApp.timer("dispatch", {
    schedule: settings.schedules.dispatch,
    handler: job((ready, budget) => ready.dispatch(budget)),
  });
  functionApp.timer("reap", {
    schedule: settings.schedules.reap,
    handler: job((ready, budget) => ready.reap(budget)),
  });
  functionApp.timer("cleanup", {
    schedule: settings.schedules.cleanup,
    handler: job((ready, budget) => ready.cleanup(budget)),
  });
  if (settings.wakeUp !== undefined) {
    functionApp.storageQueue("wakeup", {
      queueName: settings.wakeUp.queue,
      connection: "AzureWebJobsStorage",
      handler: job((ready, budget, message) =>
        ready.dispatch(budget, { wokenUp: true, tenantBatches: tenantBatchesIn([message]) }),
      ),
    });
  }
  if (definition.consumer !== undefined && settings.consumeQueue !== undefined) {
    const consume = storageQueueHandler({ handle: async (message) => (await app()).consume!(message) });
    functionApp.storageQueue("consume", {
      queueName: settings.consumeQueue,
      connection: "AzureWebJobsStorage",
      handler: (message, context) => inInvocation(context, () => consume(message, context)),
    });
  }
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
