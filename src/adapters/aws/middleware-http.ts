import { isUtf8 } from "node:buffer";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { InvalidArgumentError } from "../../errors.js";
import type { HttpHandler } from "../../middleware/idempotent-requests.js";
import { problemResponse } from "../../middleware/problem-response.js";
import { readHttpEvent } from "./http-event.js";

/**
 * Turns a handler of web requests, such as `idempotentHttp`'s, into a Lambda function behind an HTTP API (payload format
 * 2.0) or a function URL.
 *
 * @example
 * export const handler = lambdaHttp(idempotentHttp({ transaction: transaction(db), subscriber: "api", scope }, placeOrder));
 */
export function lambdaHttp(
  handler: HttpHandler,
): (event: APIGatewayProxyEventV2) => Promise<APIGatewayProxyStructuredResultV2> {
  if (typeof handler !== "function")
    throw new InvalidArgumentError("lambdaHttp: the handler must be a function (request) => response.");
  return async (event) => {
    const request = webRequestFromEvent(event);
    return resultFromResponse(request === undefined ? unusableRequest() : await handler(request));
  };
}

/** Returns undefined when a Request cannot have the method or a header, such as TRACE or a value beyond Latin-1. */
function webRequestFromEvent(event: APIGatewayProxyEventV2): Request | undefined {
  const { method, url, body } = readHttpEvent(event, "lambdaHttp");
  const mayHaveBody = method !== "GET" && method !== "HEAD";
  try {
    const headers = new Headers();
    for (const [name, value] of Object.entries(event.headers))
      if (value !== undefined) headers.set(name, value);
    if (event.cookies !== undefined) headers.set("cookie", event.cookies.join("; "));
    return new Request(url, {
      method,
      headers,
      body: mayHaveBody && body !== null ? new Uint8Array(body) : null,
    });
  } catch {
    return undefined;
  }
}

const unusableRequest = (): Response =>
  problemResponse(400, "The request has a method or a header that this function cannot take.");

async function resultFromResponse(response: Response): Promise<APIGatewayProxyStructuredResultV2> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const cookies = response.headers.getSetCookie();
  const type = response.headers.get("content-type") ?? "text/plain";
  const isText = /^(text\/|application\/([\w.-]+\+)?(json|xml)\b)/i.test(type) && isUtf8(bytes);
  return {
    statusCode: response.status,
    headers: Object.fromEntries([...response.headers].filter(([name]) => name !== "set-cookie")),
    ...(cookies.length === 0 ? {} : { cookies }),
    body: bytes.toString(isText ? "utf8" : "base64"),
    isBase64Encoded: !isText,
  };
}
