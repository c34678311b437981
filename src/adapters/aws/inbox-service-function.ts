import type { AppDefinition } from "../../app/app-definition.js";
import { openServiceApp } from "../../app/open-service-app.js";
import { serviceJob } from "../../app/service-job.js";
import { unavailableService } from "../../service/http/unavailable-service.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import { coldStart } from "./cold-start.js";
import { requestWithEncodedPath } from "./http-event.js";
import { type HttpFunction, httpFunction } from "./http-function.js";

export type InboxServiceFunction = HttpFunction;

/**
 * Serves the inbox at `/v1/inbox` by an HTTP API (payload format 2.0) or a function URL.
 *
 * @example
 * import { inboxServiceFunction } from "oncebox/aws";
 * import app from "./app.js";
 *
 * export const handler = inboxServiceFunction(app);
 */
export const inboxServiceFunction = (definition: AppDefinition): InboxServiceFunction =>
  httpFunction({
    ready: coldStart(definition, openServiceApp, (app) => serviceJob(app).respond),
    requestOf: (event) => requestWithEncodedPath(event, "inboxServiceFunction"),
    unavailable: (reason) => unavailableService(definition.service?.auth ?? "bearer", jsonLogger(), reason),
  });
