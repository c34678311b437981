import type { Budget } from "../base/budget.js";
import { defined } from "../base/defined.js";
import type { RunOptions } from "../dispatch/dispatch-run.js";
import type { TenantBatch } from "../tenants/fan-out/tenant-batch.js";
import { appDispatchers } from "./app-dispatchers.js";
import type { DispatchReport } from "./dispatch-all.js";
import { dispatchWithSuccessor } from "./dispatch-with-successor.js";
import type { OpenApp } from "./open-app.js";

export interface DispatchJobOptions {
  /** A wake-up started this run: it polls once more after a moment, because a burst of messages wakes once. */
  readonly wokenUp?: boolean;
  /** Serve only the tenants of these batches. */
  readonly tenantBatches?: readonly TenantBatch[];
  /** Subscribes to wake-ups while the run goes on: each of them makes it poll at once. */
  readonly onWake?: NonNullable<RunOptions["onWake"]>;
}

export type DispatchJob = (budget: Budget, options?: DispatchJobOptions) => Promise<DispatchReport>;

/** Handles incoming and outgoing messages. When the time is over before the work, it wakes a successor. */
export function dispatchJob({ definition, logger, wakeUp, tenants, ...parts }: OpenApp): DispatchJob {
  if (tenants !== undefined) return tenants.dispatch;
  const { inbox, outbox } = parts;
  const { inbox: incoming, outbox: outgoing } = appDispatchers(parts, definition, logger);
  return async (budget, { wokenUp = false, onWake } = {}) => {
    const options = defined({ onWake });
    const jobs = {
      inbox: incoming && ((limit: Budget) => incoming.run(inbox, limit, options)),
      outbox: outgoing && ((limit: Budget) => outgoing.run(outbox, limit, options)),
    };
    return dispatchWithSuccessor(jobs, budget, { wokenUp, wakeUp, logger });
  };
}
