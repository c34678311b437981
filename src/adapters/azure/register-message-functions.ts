import { app as functionApp } from "@azure/functions";
import { toWebResponse } from "../../base/plain-http.js";
import { readAzureSettings } from "../../config/azure-settings.js";
import { hostService, type OpenService } from "../../messaging/hosted-service.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { runTimeMs } from "./function-timeout.js";
import { requestFromHost, toHttpResponse } from "./http-trigger.js";
import { inInvocation, invocationLogger } from "./invocation-logger.js";
import { timedJobs } from "./timed-jobs.js";

export interface MessageFunctionsOptions {
  /** The receiver's path, after the host's own prefix (`routePrefix`): `_rf/receive` by default. */
  readonly route?: string;
}

/**
 * Registers the functions of a service that sends and receives messages. They share one service per process.
 * - `receiveMessages`: by HTTP
 * - `dispatchMessages`, `maintainMessages`: by timers, on the schedules of `dispatch` and `reap`
 *
 * @example
 * registerMessageFunctions(({ logger }) => createService({ serviceId: "inventory", logger, … }));
 */
export function registerMessageFunctions(open: OpenService, options: MessageFunctionsOptions = {}): void {
  const { ready, receive } = hostService(open, invocationLogger);
  // Registered before the settings are read, as in registerFunctions.
  functionApp.http("receiveMessages", {
    route: options.route ?? "_rf/receive",
    methods: ["POST"],
    authLevel: "anonymous", // the signature authenticates the sender
    handler: (request, context) =>
      inInvocation(context, async () =>
        toHttpResponse(toWebResponse(await receive(requestFromHost(request)))),
      ),
  });
  refuseUnknown(options, ["route"], "registerMessageFunctions");
  const settings = readAzureSettings();
  const job = timedJobs(ready, runTimeMs(settings));
  functionApp.timer("dispatchMessages", {
    schedule: settings.schedules.dispatch,
    handler: job((service, budget) => service.dispatch(budget)),
  });
  functionApp.timer("maintainMessages", {
    schedule: settings.schedules.reap,
    handler: job((service, budget) => service.maintain(budget)),
  });
}
