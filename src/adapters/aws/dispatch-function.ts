import type { SQSBatchResponse } from "aws-lambda";
import type { AppDefinition } from "../../app/app-definition.js";
import type { DispatchReport } from "../../app/dispatch-all.js";
import { dispatchJob } from "../../app/dispatch-job.js";
import { triggerOf } from "./dispatch-event.js";
import { jobFunction } from "./job-function.js";
import { tenantBatchesOf } from "./tenant-batch-event.js";
import type { JobFunction } from "./timed-function.js";

/** For a queue's trigger the report also says that no message failed. */
export type DispatchFunctionReport = DispatchReport & Partial<SQSBatchResponse>;

/** Dispatches messages. A schedule, the webhook function or a queue of wake-ups starts it. */
export function dispatchFunction(definition: AppDefinition): JobFunction<DispatchFunctionReport> {
  return jobFunction(definition, (app) => {
    const dispatch = dispatchJob(app);
    return async (budget, event): Promise<DispatchFunctionReport> => {
      const trigger = triggerOf(event);
      const report = await dispatch(budget, {
        wokenUp: trigger !== "schedule",
        tenantBatches: tenantBatchesOf(event),
      });
      return trigger === "queue" ? { ...report, batchItemFailures: [] } : report;
    };
  });
}
