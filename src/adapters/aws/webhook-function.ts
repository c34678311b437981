import type { AppDefinition } from "../../app/app-definition.js";
import { openReceivingApp } from "../../app/receiving-app.js";
import { webhookJob } from "../../app/webhook-job.js";
import type { PlainResponse } from "../../base/plain-http.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import { refusedResponse } from "../../webhooks/responses.js";
import { coldStart } from "./cold-start.js";
import { requestFromEvent } from "./http-event.js";
import { type HttpFunction, httpFunction } from "./http-function.js";

export type WebhookFunction = HttpFunction;

/**
 * Receives webhooks from an HTTP API (payload format 2.0) or a function URL. Middy's `use` adds middleware.
 *
 * @example
 * import { webhookFunction } from "oncebox/aws";
 * import app from "./app.js";
 *
 * export const handler = webhookFunction(app);
 */
export const webhookFunction = (definition: AppDefinition): WebhookFunction =>
  httpFunction({
    ready: coldStart(definition, openReceivingApp, webhookJob),
    requestOf: (event) => requestFromEvent(event),
    unavailable,
  });

function unavailable(reason: string): PlainResponse {
  jsonLogger().error("webhook", { outcome: "unavailable", status: 503, reason });
  return refusedResponse("unavailable");
}
