import { isUtf8 } from "node:buffer";
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { InvalidArgumentError } from "../../errors.js";
import type { HttpHandler } from "../../middleware/idempotent-requests.js";

/**
 * A handler of web requests, such as `idempotentHttp`'s, as a Lambda function behind an HTTP API (payload format 2.0) or
 * a function URL.
 *
 * @example
 * export const handler = lambdaHttp(idempotentHttp({ transaction: transaction(db), subscriber: "api" }, placeOrder));
 */
export function lambdaHttp(
  handler: HttpHandler,
): (event: APIGatewayProxyEventV2) => Promise<APIGatewayProxyStructuredResultV2> {
  if (typeof handler !== "function")
    throw new InvalidArgumentError("lambdaHttp takes a function (request) => response.");
  return async (event) => toResult(await handler(toWebRequest(event)));
}

function toWebRequest(event: APIGatewayProxyEventV2): Request {
  const http = event?.requestContext?.http;
  if (http === undefined) {
    throw new InvalidArgumentError(
      "lambdaHttp takes events of an HTTP API with payload format 2.0, or of a function URL.",
    );
  }
  const url = new URL(`https://${event.requestContext.domainName}`);
  // Assigned, not concatenated: HTTP APIs decode the path, and then it may hold ? and #.
  url.pathname = event.rawPath;
  url.search = event.rawQueryString;
  const headers = new Headers();
  for (const [name, value] of Object.entries(event.headers))
    if (value !== undefined) headers.set(name, value);
  if (event.cookies !== undefined) headers.set("cookie", event.cookies.join("; "));
  const hasBody = typeof event.body === "string" && http.method !== "GET" && http.method !== "HEAD";
  const body = hasBody ? Buffer.from(event.body!, event.isBase64Encoded ? "base64" : "utf8") : null;
  return new Request(url, { method: http.method, headers, body });
}

async function toResult(response: Response): Promise<APIGatewayProxyStructuredResultV2> {
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
