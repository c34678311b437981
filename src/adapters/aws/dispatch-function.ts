import type { SQSBatchResponse } from "aws-lambda";
import type { AppDefinition } from "../../app/app-definition.js";
import type { DispatchReport } from "../../app/dispatch-all.js";
import { dispatchJob } from "../../app/dispatch-job.js";
import { triggerOf } from "./dispatch-event.js";
import { type JobFunction, jobFunction } from "./job-function.js";
import { tenantBatchesOf } from "./tenant-batch-event.js";

/** A queue's trigger also wants to be told that no message has to come again. */
export type DispatchAnswer = DispatchReport & Partial<SQSBatchResponse>;

/** Handles messages: for a schedule, for wake-ups by the webhook function, and for a queue of wake-ups. */
export function dispatchFunction(definition: AppDefinition): JobFunction<DispatchAnswer> {
  return jobFunction(definition, (app) => {
    const dispatch = dispatchJob(app);
    return async (budget, event): Promise<DispatchAnswer> => {
      const trigger = triggerOf(event);
      const report = await dispatch(budget, {
        wokenUp: trigger !== "schedule",
        tenantBatches: tenantBatchesOf(event),
      });
      return trigger === "queue" ? { ...report, batchItemFailures: [] } : report;
    };
  });
}
