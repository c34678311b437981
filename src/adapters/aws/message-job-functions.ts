import type { SQSBatchResponse } from "aws-lambda";
import { messageHost } from "../../app/message-host.js";
import { readAwsMessageSettings } from "../../config/aws-settings.js";
import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import { hostService, type OpenService } from "../../messaging/hosted-service.js";
import type { ServiceMaintenance } from "../../messaging/operations.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import { triggerOf } from "./dispatch-event.js";
import { type JobFunction, timedFunction } from "./timed-function.js";
import { awsWakeUp } from "./wake-up.js";

/** For a queue's trigger the result also says that no message failed. */
export type MessageDispatchResult = DispatchResult & Partial<SQSBatchResponse>;

/** Sends the messages of a service's outbox. A schedule, the receive function or a queue of wake-ups starts it. */
export function messageDispatchFunction(open: OpenService): JobFunction<MessageDispatchResult> {
  const { dispatch } = messageHost(open, jsonLogger, awsWakeUp(readAwsMessageSettings()));
  return timedFunction(async () => async (budget, event): Promise<MessageDispatchResult> => {
    const trigger = triggerOf(event);
    const result = await dispatch(budget, trigger !== "schedule");
    return trigger === "queue" ? { ...result, batchItemFailures: [] } : result;
  });
}

/** Ends expired leases and deletes what a service need not remember any more. For a schedule, each minute. */
export function messageMaintainFunction(open: OpenService): JobFunction<ServiceMaintenance> {
  const { ready } = hostService(open, jsonLogger);
  return timedFunction(async () => (await ready()).maintain);
}
