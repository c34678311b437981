import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { InvalidArgumentError } from "../../errors.js";

/** An event of an HTTP API (payload format 2.0) or a function URL, with the bytes of the body as they were sent. */
export function toRequest(event: APIGatewayProxyEventV2): Request {
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
  const body = bodyOf(event, http.method);
  return new Request(url, {
    method: http.method,
    headers: headersOf(event),
    ...(body === undefined ? {} : { body }),
  });
}

/** Headers that were sent more than once come joined by commas, cookies apart from them. */
function headersOf({ headers, cookies }: APIGatewayProxyEventV2): Headers {
  const all = new Headers();
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) all.set(name, value);
  if (cookies !== undefined && cookies.length > 0) all.set("cookie", cookies.join("; "));
  return all;
}

function bodyOf({ body, isBase64Encoded }: APIGatewayProxyEventV2, method: string): Buffer | undefined {
  if (body === undefined || body === null || method === "GET" || method === "HEAD") return undefined;
  return Buffer.from(body, isBase64Encoded ? "base64" : "utf8");
}

export async function toResult(response: Response): Promise<APIGatewayProxyStructuredResultV2> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const isText = isTextual(response.headers);
  const cookies = response.headers.getSetCookie();
  const headers = Object.fromEntries([...response.headers].filter(([name]) => name !== "set-cookie"));
  return {
    statusCode: response.status,
    headers,
    ...(cookies.length === 0 ? {} : { cookies }),
    body: bytes.toString(isText ? "utf8" : "base64"),
    isBase64Encoded: !isText,
  };
}

/** What survives as a JSON string; anything else, and what is compressed, goes as base64. */
function isTextual(headers: Headers): boolean {
  const type = headers.get("content-type") ?? "text/plain";
  return !headers.has("content-encoding") && /^(text\/|application\/([\w.-]+\+)?(json|xml)\b)/i.test(type);
}
