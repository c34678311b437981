import { app as functionApp } from "@azure/functions";
import type { AppDefinition } from "../../app/app-definition.js";
import type { App } from "../../app/create-app.js";
import type { AzureSettings } from "../../config/azure-settings.js";
import { tenantBatchesIn } from "../../tenants/fan-out/tenant-batch.js";
import { inInvocation, invocationLogger } from "./invocation-logger.js";
import { serviceBusHandler, storageQueueHandler } from "./middleware.js";
import { logPoisonQueues } from "./poison-queues.js";
import type { timedJobs } from "./timed-jobs.js";

/** Timers and queues: everything that no request starts. */
export function registerWork(
  app: () => Promise<App>,
  definition: AppDefinition,
  settings: AzureSettings,
  job: ReturnType<typeof timedJobs<App>>,
): void {
  const { schedules, wakeUp, queueConnection: connection } = settings;
  functionApp.timer("dispatch", {
    schedule: schedules.dispatch,
    handler: job((ready, budget) => ready.dispatch(budget)),
  });
  functionApp.timer("reap", {
    schedule: schedules.reap,
    handler: job(async (ready, budget) => {
      const [report] = await Promise.all([
        ready.reap(budget),
        logPoisonQueues(settings.poisonQueues, invocationLogger("info")),
      ]);
      return report;
    }),
  });
  functionApp.timer("cleanup", {
    schedule: schedules.cleanup,
    handler: job((ready, budget) => ready.cleanup(budget)),
  });
  if (wakeUp !== undefined) {
    functionApp.storageQueue("wakeup", {
      queueName: wakeUp.queue,
      connection,
      handler: job((ready, budget, message) =>
        ready.dispatch(budget, { wokenUp: true, tenantBatches: tenantBatchesIn([message]) }),
      ),
    });
  }
  if (definition.consumer !== undefined) registerConsumers(app, settings);
}

function registerConsumers(
  app: () => Promise<App>,
  { consumeQueue, consumeBusQueue, queueConnection: connection }: AzureSettings,
): void {
  const options = {
    handle: async (message: Parameters<NonNullable<App["consume"]>>[0]) => (await app()).consume!(message),
  };
  if (consumeQueue !== undefined) {
    const consume = storageQueueHandler(options);
    functionApp.storageQueue("consume", {
      queueName: consumeQueue,
      connection,
      handler: (message, context) => inInvocation(context, () => consume(message, context)),
    });
  }
  if (consumeBusQueue !== undefined) {
    const consume = serviceBusHandler(options);
    functionApp.serviceBusQueue("consume-bus", {
      queueName: consumeBusQueue,
      connection: "ONCEBOX_BUS",
      handler: (message, context) => inInvocation(context, () => consume(message, context)),
    });
  }
}
