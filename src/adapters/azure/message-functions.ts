import { app as functionApp } from "@azure/functions";
import { type MessageHost, messageHost } from "../../app/message-host.js";
import { functionGroupsIn, readAzureSettings } from "../../config/azure-settings.js";
import { processEnv } from "../../config/environment.js";
import { toWebResponse } from "../../http/plain.js";
import type { OpenService } from "../../messaging/hosted-service.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { runTimeMs } from "./function-timeout.js";
import {
  allMethods,
  fromPlainResponse,
  plainRequest,
  requestFromHost,
  toHttpResponse,
} from "./http-trigger.js";
import { inInvocation, invocationLogger, timedJobs } from "./invocations.js";
import { azureSecrets } from "./key-vault.js";
import { azureWakeUp, logPoisonQueues } from "./wake-up.js";

/** Options of the Azure functions of a service. */
export interface MessageFunctionsOptions {
  /** The first part of the paths, after the host's own prefix (`routePrefix`): `_rf` by default. */
  readonly prefix?: string;
}

/**
 * Registers the functions of a service that sends and receives messages, unless `ONCEBOX_FUNCTIONS` names other groups than
 * `messaging`. They share one service per process.
 * - `receiveMessages`: by HTTP, at `_rf/receive`
 * - `diagnoseMessages`: by HTTP, the service's diagnostics at `_rf/health`, `_rf/outbox/stats` and so on
 * - `dispatchMessages`, `maintainMessages`: by timers, on the schedules of `dispatch` and `reap`
 * - `wakeUpMessages`: dispatches too, by the queue that `ONCEBOX_MESSAGE_WAKE_QUEUE` names
 *
 * @example
 * registerMessageFunctions(async ({ logger, database }) =>
 *   createService({ serviceId: "inventory", db: await database(openDatabase), messages, logger }),
 * );
 */
export function registerMessageFunctions(open: OpenService, options: MessageFunctionsOptions = {}): void {
  if (!functionGroupsIn(processEnv).has("messaging")) return;
  let host: MessageHost | undefined;
  const { prefix = "_rf" } = options;
  // Registered before the settings are read, as in registerFunctions.
  functionApp.http("receiveMessages", {
    route: `${prefix}/receive`,
    methods: ["POST"],
    authLevel: "anonymous", // the signature authenticates the sender
    handler: (request, context) =>
      inInvocation(context, async () =>
        toHttpResponse(toWebResponse(await host!.receive(requestFromHost(request)))),
      ),
  });
  functionApp.http("diagnoseMessages", {
    route: `${prefix}/{*path}`,
    methods: [...allMethods],
    authLevel: "anonymous", // the bearer token identifies the caller
    handler: (request, context) =>
      inInvocation(context, async () => fromPlainResponse(await host!.receive(plainRequest(request)))),
  });
  refuseUnknown(options, ["prefix"], "registerMessageFunctions");
  const settings = readAzureSettings();
  const { messageWakeUp: wakeUp, schedules, queueConnection: connection } = settings;
  const platform = { loggerAt: invocationLogger, resolveSecret: azureSecrets(processEnv) };
  const made = messageHost(open, platform, azureWakeUp({ wakeUp }));
  const { ready, dispatch } = made;
  host = made;
  const job = timedJobs(ready, runTimeMs(settings));
  functionApp.timer("dispatchMessages", {
    schedule: schedules.dispatch,
    handler: job((_, budget) => dispatch(budget, false)),
  });
  if (wakeUp !== undefined) {
    functionApp.storageQueue("wakeUpMessages", {
      queueName: wakeUp.queue,
      connection,
      handler: job((_, budget) => dispatch(budget, true)),
    });
  }
  functionApp.timer("maintainMessages", {
    schedule: schedules.reap,
    handler: job(async (service, budget) => {
      const [report] = await Promise.all([
        service.maintain(budget),
        logPoisonQueues(settings.messagePoisonQueues, invocationLogger("info")),
      ]);
      return report;
    }),
  });
}
