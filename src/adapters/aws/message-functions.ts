import middy from "@middy/core";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2, SQSBatchResponse } from "aws-lambda";
import { messageHost } from "../../app/message-host.js";
import { jsonLogger } from "../../base/logger.js";
import { readAwsMessageSettings } from "../../config/aws-settings.js";
import { processEnv } from "../../config/environment.js";
import type { DispatchResult } from "../../dispatch/dispatch-run.js";
import { hostService, type OpenService, type ServicePlatform } from "../../messaging/hosted-service.js";
import type { ServiceMaintenance } from "../../messaging/management.js";
import { afterThaw, type HttpFunction, type JobFunction, timedFunction } from "./cold-start.js";
import { requestFromEvent, resultFromPlain, triggerOf } from "./events.js";
import { awsSecrets } from "./secrets-manager.js";
import { awsWakeUp } from "./wake-up.js";

const platform = (): ServicePlatform => ({ loggerAt: jsonLogger, resolveSecret: awsSecrets(processEnv) });

/**
 * Receives messages of other services from an HTTP API (payload format 2.0) or a function URL, at any path, and serves the
 * service's diagnostics: lead `/_rf/{path+}` here.
 *
 * @example
 * export const handler = messageReceiveFunction(async ({ logger, database }) =>
 *   createService({ serviceId: "inventory", db: await database(openDatabase), messages, logger }),
 * );
 */
export function messageReceiveFunction(open: OpenService): HttpFunction {
  const { receive } = messageHost(open, platform(), awsWakeUp(readAwsMessageSettings()));
  // No early response: Lambda would freeze the process with the handler's transaction open. When Lambda kills it, the
  // database rolls back, and the sender tries again.
  return middy<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>({ timeoutEarlyInMillis: 0 })
    .use(afterThaw)
    .handler(async (event) =>
      resultFromPlain(await receive(requestFromEvent(event, "messageReceiveFunction"))),
    );
}

/** For a queue's trigger the result also says that no message failed. */
type MessageDispatchResult = DispatchResult & Partial<SQSBatchResponse>;

/** Sends the messages of a service's outbox. A schedule, the receive function or a queue of wake-ups starts it. */
export function messageDispatchFunction(open: OpenService): JobFunction<MessageDispatchResult> {
  const { dispatch } = messageHost(open, platform(), awsWakeUp(readAwsMessageSettings()));
  return timedFunction(async () => async (budget, event): Promise<MessageDispatchResult> => {
    const trigger = triggerOf(event);
    const result = await dispatch(budget, trigger !== "schedule");
    return trigger === "queue" ? { ...result, batchItemFailures: [] } : result;
  });
}

/** Ends expired leases and deletes what a service need not remember any more. For a schedule, each minute. */
export function messageMaintainFunction(open: OpenService): JobFunction<ServiceMaintenance> {
  const { ready } = hostService(open, platform());
  return timedFunction(async () => (await ready()).maintain);
}
