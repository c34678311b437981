import middy, { type MiddyfiedHandler } from "@middy/core";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import type { AppDefinition } from "../../app/app-definition.js";
import { openReceivingApp } from "../../app/receiving-app.js";
import { webhookJob } from "../../app/webhook-job.js";
import { safeReason } from "../../base/safe-reason.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import { refusedResponse } from "../../webhooks/responses.js";
import type { WebhookReceiver } from "../../webhooks/route.js";
import { afterThaw } from "./after-thaw.js";
import { coldStart } from "./cold-start.js";
import { requestFromEvent, resultFromPlain } from "./http-event.js";

export type WebhookFunction = MiddyfiedHandler<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>;

/** Answers 503 this long before Lambda kills the function, which would answer the sender 502. */
const answerEarlyMs = 100;

/**
 * Receives webhooks from an HTTP API (payload format 2.0) or a function URL. Middy's `use` adds middleware.
 *
 * @example
 * import { webhookFunction } from "oncebox/aws";
 * import app from "./app.js";
 *
 * export const handler = webhookFunction(app);
 */
export function webhookFunction(definition: AppDefinition): WebhookFunction {
  const route = coldStart(definition, openReceivingApp, webhookJob);
  return middy<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>({
    timeoutEarlyInMillis: answerEarlyMs,
    timeoutEarlyResponse: () => unavailable("the function's time is up"),
  })
    .use(afterThaw)
    .handler(async (event) => {
      const request = requestFromEvent(event);
      let receive: WebhookReceiver;
      try {
        receive = await route();
      } catch (error) {
        return unavailable(safeReason(error)); // the next request tries again, in case a secret store was away
      }
      return resultFromPlain(await receive(request));
    });
}

function unavailable(reason: string): APIGatewayProxyStructuredResultV2 {
  jsonLogger().error("webhook", { outcome: "unavailable", status: 503, reason });
  return resultFromPlain(refusedResponse("unavailable"));
}
