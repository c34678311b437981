import { isUtf8 } from "node:buffer";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { InvalidArgumentError } from "../../errors.js";
import type { HttpHandler } from "../../middleware/idempotent-requests.js";
import { readHttpEvent } from "./http-event.js";

/**
 * Turns a handler of web requests, such as `idempotentHttp`'s, into a Lambda function behind an HTTP API (payload format
 * 2.0) or a function URL.
 *
 * @example
 * export const handler = lambdaHttp(idempotentHttp({ transaction: transaction(db), subscriber: "api" }, placeOrder));
 */
export function lambdaHttp(
  handler: HttpHandler,
): (event: APIGatewayProxyEventV2) => Promise<APIGatewayProxyStructuredResultV2> {
  if (typeof handler !== "function")
    throw new InvalidArgumentError("lambdaHttp: the handler must be a function (request) => response.");
  return async (event) => resultFromResponse(await handler(webRequestFromEvent(event)));
}

function webRequestFromEvent(event: APIGatewayProxyEventV2): Request {
  const { method, url, body } = readHttpEvent(event, "lambdaHttp");
  const headers = new Headers();
  for (const [name, value] of Object.entries(event.headers))
    if (value !== undefined) headers.set(name, value);
  if (event.cookies !== undefined) headers.set("cookie", event.cookies.join("; "));
  const mayHaveBody = method !== "GET" && method !== "HEAD";
  return new Request(url, {
    method,
    headers,
    body: mayHaveBody && body !== null ? new Uint8Array(body) : null,
  });
}

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
