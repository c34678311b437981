import { unavailableAdmin } from "../../admin/unavailable-admin.js";
import { adminJob } from "../../app/admin-job.js";
import type { AppDefinition } from "../../app/app-definition.js";
import { openApp } from "../../app/open-app.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import { coldStart } from "./cold-start.js";
import { requestWithEncodedPath } from "./http-event.js";
import { type HttpFunction, httpFunction } from "./http-function.js";

export type AdminFunction = HttpFunction;

/**
 * Serves the diagnostics API and the admin page at `/_oncebox` by an HTTP API (payload format 2.0) or a function URL.
 *
 * @example
 * import { adminFunction } from "oncebox/aws";
 * import app from "./app.js";
 *
 * export const handler = adminFunction(app);
 */
export const adminFunction = (definition: AppDefinition): AdminFunction =>
  httpFunction({
    ready: coldStart(definition, openApp, (app) => adminJob(app).respond),
    requestOf: (event) => requestWithEncodedPath(event, "adminFunction"),
    unavailable: (reason) => unavailableAdmin(jsonLogger(), reason),
  });
