import middy, { type MiddyfiedHandler } from "@middy/core";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { messageHost } from "../../app/message-host.js";
import { readAwsMessageSettings } from "../../config/aws-settings.js";
import type { OpenService } from "../../messaging/hosted-service.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import { afterThaw } from "./after-thaw.js";
import { requestFromEvent, resultFromPlain } from "./http-event.js";
import { awsWakeUp } from "./wake-up.js";

export type MessageReceiveFunction = MiddyfiedHandler<
  APIGatewayProxyEventV2,
  APIGatewayProxyStructuredResultV2
>;

/**
 * Receives messages of other services from an HTTP API (payload format 2.0) or a function URL, at any path.
 *
 * @example
 * export const handler = messageReceiveFunction(({ logger }) => createService({ serviceId: "inventory", db, messages, logger }));
 */
export function messageReceiveFunction(open: OpenService): MessageReceiveFunction {
  const { receive } = messageHost(open, jsonLogger, awsWakeUp(readAwsMessageSettings()));
  // No early response: Lambda would freeze the process with the handler's transaction open. When Lambda kills it, the
  // database rolls back, and the sender tries again.
  return middy<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>({ timeoutEarlyInMillis: 0 })
    .use(afterThaw)
    .handler(async (event) =>
      resultFromPlain(await receive(requestFromEvent(event, "messageReceiveFunction"))),
    );
}
