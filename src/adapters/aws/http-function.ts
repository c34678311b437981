import middy, { type MiddyfiedHandler } from "@middy/core";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import type { PlainRequest, PlainResponse, PlainRoute } from "../../base/plain-http.js";
import { safeReason } from "../../base/safe-reason.js";
import { afterThaw } from "./after-thaw.js";
import { resultFromPlain } from "./http-event.js";

/** A function of an HTTP API (payload format 2.0) or a function URL. Middy's `use` adds middleware. */
export type HttpFunction = MiddyfiedHandler<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>;

export interface HttpFunctionOptions {
  /** Makes what responds, once for all invocations. */
  readonly ready: () => Promise<PlainRoute>;
  readonly requestOf: (event: APIGatewayProxyEventV2) => PlainRequest;
  /** Logs why there is no other answer, and returns a 503. */
  readonly unavailable: (reason: string) => PlainResponse;
}

/** Answers 503 this long before Lambda kills the function, which would answer the caller 502. */
const answerEarlyMs = 100;

export function httpFunction({ ready, requestOf, unavailable }: HttpFunctionOptions): HttpFunction {
  const refused = (reason: string) => resultFromPlain(unavailable(reason));
  return middy<APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2>({
    timeoutEarlyInMillis: answerEarlyMs,
    timeoutEarlyResponse: () => refused("the function's time is up"),
  })
    .use(afterThaw)
    .handler(async (event) => {
      const request = requestOf(event);
      let respond: PlainRoute;
      try {
        respond = await ready();
      } catch (error) {
        return refused(safeReason(error)); // the next request tries again, in case a secret store was away
      }
      return resultFromPlain(await respond(request));
    });
}
