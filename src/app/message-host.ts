import type { Budget } from "../base/budget.js";
import { type Logger, safeReason } from "../base/logger.js";
import { withinTime } from "../base/timers.js";
import type { DispatchResult } from "../dispatch/dispatch-run.js";
import { InvalidOperationError } from "../errors.js";
import {
  hostService,
  type LoggerAt,
  type OpenService,
  type ServiceHost,
} from "../messaging/hosted-service.js";
import { dispatchAll } from "./dispatch-job.js";
import { coalesced, type WakeUp } from "./wake-up.js";

/** A sender waits for its acknowledgement no longer than this on account of a wake-up. */
const longestWakeMs = 1_000;

export interface MessageHost extends ServiceHost {
  /** Sends what is due within the budget, and wakes a successor when the time is over before the work. */
  dispatch(budget: Budget, wokenUp: boolean): Promise<DispatchResult>;
}

/** Runs a service in functions. What a handler has sent is dispatched at once, where the platform can wake the dispatcher. */
export function messageHost(open: OpenService, loggerAt: LoggerAt, wakeUp: WakeUp | undefined): MessageHost {
  const logger = loggerAt("info");
  const host = hostService(open, loggerAt, wakeUp && { afterSend: wakingOf(wakeUp, logger) });
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

/** Never rejects: the timer dispatches anyway. */
function wakingOf(waker: WakeUp, logger: Logger): () => Promise<void> {
  const wakeUp = coalesced(waker);
  waker.prepare?.(); // while the rest of the cold start goes on
  const tooLate = () => new InvalidOperationError(`The wake-up was still running after ${longestWakeMs} ms.`);
  return async () => {
    try {
      await withinTime(longestWakeMs, wakeUp.wake(), tooLate);
    } catch (error) {
      logger.warn("waking the dispatcher failed; the messages are safe", { error: safeReason(error) });
    }
  };
}
