import { app as functionApp, type HttpRequest, type InvocationContext } from "@azure/functions";
import type { AppDefinition } from "../../app/app-definition.js";
import type { App } from "../../app/create-app.js";
import { type Budget, timeBudget } from "../../base/budget.js";
import { safeReason } from "../../base/safe-reason.js";
import { readAzureSettings } from "../../config/azure-settings.js";
import { tenantBatchesIn } from "../../tenants/fan-out/tenant-batch.js";
import { toResponse } from "../../webhooks/http.js";
import { refusedAnswer } from "../../webhooks/responses.js";
import { coldStart } from "./cold-start.js";
import { runTimeMs } from "./function-timeout.js";
import { toHttpResponse, toRequest } from "./http.js";
import { inInvocation, invocationLogger } from "./invocation-logger.js";
import { storageQueueHandler } from "./middleware.js";

/** All of them, because the host answers 404 for those that are not named; the route itself says what is allowed. */
const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;

/**
 * Registers an app's functions with the host: `webhook` by HTTP; `dispatch`, `reap` and `cleanup` by timers; and
 * `wakeup`, which dispatches too, by a queue, if `ONCEBOX_WAKE_QUEUE` names one; and `consume`, if the app has a
 * consumer and `ONCEBOX_CONSUME_QUEUE` names its queue. They share the app, which is put together once per process.
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
  // The first, because what is thrown before anything is registered leaves an app without functions, which then says
  // 404 to everybody; what is thrown after it stops the start, and the host tells why.
  functionApp.http("webhook", {
    route: "webhooks/{source}/{tenant?}",
    methods: [...methods],
    authLevel: "anonymous", // who sends is known by the signature
    handler: (request, context) => inInvocation(context, () => receive(app, request)),
  });

  const settings = readAzureSettings();
  const runMs = runTimeMs(settings);
  const stopping = new AbortController();
  const runs = new Set<Promise<unknown>>();
  const job = <Answer>(work: (app: App, budget: Budget, trigger: unknown) => Promise<Answer>) => {
    return (trigger: unknown, context: InvocationContext): Promise<Answer> => {
      const budget = timeBudget(runMs, stopping.signal); // the host's clock runs while the app is put together
      const run = inInvocation(context, async () => work(await app(), budget, trigger));
      runs.add(run);
      return run.finally(() => runs.delete(run));
    };
  };

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
  // An instance that is taken away finishes what runs, hands back what it did not start, and closes its connections.
  functionApp.hook.appTerminate(async () => {
    stopping.abort();
    await Promise.allSettled(runs);
    await app().then(
      (ready) => ready.close(),
      () => {}, // there never was one
    );
  });
}

async function receive(app: () => Promise<App>, request: HttpRequest) {
  let running: App;
  try {
    running = await app();
  } catch (error) {
    // The next one tries again: a secret store may have been away.
    const reason = safeReason(error);
    invocationLogger("info").error("webhook", { outcome: "unavailable", status: 503, reason });
    return toHttpResponse(toResponse(refusedAnswer("unavailable")));
  }
  return toHttpResponse(await running.webhook(toRequest(request)));
}
