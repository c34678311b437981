import middy, { type MiddyfiedHandler } from "@middy/core";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import type { AppDefinition } from "../../app/app-definition.js";
import { openServiceApp } from "../../app/open-service-app.js";
import { serviceJob } from "../../app/service-job.js";
import { jsonContent } from "../../base/json-content.js";
import type { PlainRequest, PlainResponse } from "../../base/plain-http.js";
import { safeReason } from "../../base/safe-reason.js";
import type { InboxService } from "../../service/http/create-inbox-service.js";
import { unavailableService } from "../../service/http/unavailable-service.js";
import { jsonLogger } from "../../telemetry/json-logger.js";
import { afterThaw } from "./after-thaw.js";
import { coldStart } from "./cold-start.js";
import { requestFromEvent } from "./http-event.js";

export type InboxServiceFunction = MiddyfiedHandler<
  APIGatewayProxyEventV2,
  APIGatewayProxyStructuredResultV2
>;

/** Answers 503 this long before Lambda kills the function, which would answer the caller 502. */
const answerEarlyMs = 100;

/**
 * Serves the inbox at `/v1/inbox` by an HTTP API (payload format 2.0) or a function URL.
 *
 * @example
 * import { inboxServiceFunction } from "oncebox/aws";
 * import app from "./app.js";
 *
 * export const handler = inboxServiceFunction(app);
 */
export function inboxServiceFunction(definition: AppDefinition): InboxServiceFunction {
  const ready = coldStart(definition, openServiceApp, serviceJob);
  const unavailable = (reason: string) =>
    toResult(unavailableService(definition.service?.auth ?? "bearer", jsonLogger(), reason));
  return middy<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>({
    timeoutEarlyInMillis: answerEarlyMs,
    timeoutEarlyResponse: () => unavailable("the function's time is up"),
  })
    .use(afterThaw)
    .handler(async (event) => {
      const request = plainRequest(event);
      let service: InboxService;
      try {
        service = await ready();
      } catch (error) {
        return unavailable(safeReason(error)); // the next request tries again, in case a secret store was away
      }
      return toResult(await service.respond(request));
    });
}

function plainRequest(event: APIGatewayProxyEventV2): PlainRequest {
  const { method, headers, body } = requestFromEvent(event, "inboxServiceFunction");
  return { method, path: encodedPath(event), headers, body };
}

/** HTTP APIs decode the path, and function URLs do not. A key may hold a percent sign, and must not be decoded twice. */
function encodedPath({ rawPath, requestContext: { domainName } }: APIGatewayProxyEventV2): string {
  if (domainName.includes(".lambda-url.")) return rawPath;
  return rawPath.toWellFormed().split("/").map(encodeURIComponent).join("/");
}

const toResult = ({ status, headers, body = "" }: PlainResponse): APIGatewayProxyStructuredResultV2 => ({
  statusCode: status,
  headers: { ...headers, ...(body === "" ? {} : jsonContent) },
  body,
  isBase64Encoded: false,
});
