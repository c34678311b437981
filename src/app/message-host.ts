import type { Budget } from "../base/async.js";
import type { DispatchResult } from "../dispatch/dispatch-run.js";
import {
  hostService,
  type OpenService,
  type ServiceHost,
  type ServicePlatform,
} from "../messaging/hosted-service.js";
import { dispatchAll } from "./dispatch-job.js";
import { longestWakeMs, type WakeUp, wakeAfterCommit } from "./wake-up.js";

export interface MessageHost extends ServiceHost {
  /** Sends what is due within the budget, and wakes a successor when the time is over before the work. */
  dispatch(budget: Budget, wokenUp: boolean): Promise<DispatchResult>;
}

/** Runs a service in functions. What a handler has sent is dispatched at once, where the platform can wake the dispatcher. */
export function messageHost(
  open: OpenService,
  platform: ServicePlatform,
  wakeUp: WakeUp | undefined,
): MessageHost {
  const logger = platform.loggerAt("info");
  const host = hostService(
    open,
    platform,
    wakeUp && { afterSend: wakeAfterCommit(wakeUp, logger, longestWakeMs) },
  );
  return {
    ...host,
    async dispatch(budget, wokenUp) {
      const service = await host.ready();
      const jobs = { inbox: undefined, outbox: (limit: Budget) => service.dispatch(limit) };
      const { outbox } = await dispatchAll(jobs, budget, { wokenUp, wakeUp, logger });
      return outbox!;
    },
  };
}
