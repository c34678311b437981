import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { InvalidArgumentError } from "../../errors.js";
import type { Answer, IncomingHeaders, IncomingRequest } from "../../webhooks/http.js";

/** An event of an HTTP API (payload format 2.0) or a function URL, with the bytes of the body as they were sent. */
export function toRequest(event: APIGatewayProxyEventV2): IncomingRequest {
  const http = event?.requestContext?.http;
  if (http === undefined) {
    throw new InvalidArgumentError(
      "The webhook function takes events of an HTTP API with payload format 2.0, or of a function URL.",
    );
  }
  const url = new URL(`https://${event.requestContext.domainName}`);
  // Assigned, not concatenated: HTTP APIs decode the path, and then it may hold ? and #.
  url.pathname = event.rawPath;
  url.search = event.rawQueryString;
  return { method: http.method, url: url.href, headers: headersOf(event), body: bodyOf(event) };
}

/** Headers that were sent more than once come joined by commas, cookies apart from them. */
function headersOf({ headers = {}, cookies = [] }: APIGatewayProxyEventV2): IncomingHeaders {
  const all = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  if (cookies.length > 0) all.set("cookie", cookies.join("; "));
  return { get: (name) => all.get(name.toLowerCase()) ?? null };
}

const bodyOf = ({ body, isBase64Encoded }: APIGatewayProxyEventV2): Buffer | null =>
  typeof body === "string" ? Buffer.from(body, isBase64Encoded ? "base64" : "utf8") : null;

export const toResult = ({ status, headers, body }: Answer): APIGatewayProxyStructuredResultV2 => ({
  statusCode: status,
  headers: { ...headers },
  body,
  isBase64Encoded: false,
});
