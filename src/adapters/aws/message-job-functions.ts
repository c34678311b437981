import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import { hostService, type OpenService } from "../../messaging/hosted-service.js";
import type { ServiceMaintenance } from "../../messaging/operations.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import { type JobFunction, timedFunction } from "./timed-function.js";

/** Sends the messages of a service's outbox. For a schedule, each minute. */
export function messageDispatchFunction(open: OpenService): JobFunction<DispatchResult> {
  const { ready } = hostService(open, jsonLogger);
  return timedFunction(async () => (await ready()).dispatch);
}

/** Ends expired leases and deletes what a service need not remember any more. For a schedule, each minute. */
export function messageMaintainFunction(open: OpenService): JobFunction<ServiceMaintenance> {
  const { ready } = hostService(open, jsonLogger);
  return timedFunction(async () => (await ready()).maintain);
}
