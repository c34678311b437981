import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2, Context } from "aws-lambda";
import type { Budget } from "../../base/async.js";
import { InvalidArgumentError } from "../../errors.js";
import type { IncomingHeaders } from "../../http/body.js";
import { headersOf, type PlainRequest, type PlainResponse } from "../../http/plain.js";
import { type TenantBatch, tenantBatchesIn } from "../../tenants/fan-out/tenant-batch.js";

/** Method, URL and body of an event of an HTTP API (payload format 2.0) or a function URL. */
export function readHttpEvent(event: APIGatewayProxyEventV2, functionName: string) {
  const http = event?.requestContext?.http;
  if (http === undefined) {
    throw new InvalidArgumentError(
      `${functionName} got another event than it takes. It takes events of an HTTP API with payload format 2.0, or of a function URL.`,
    );
  }
  const url = new URL(`https://${event.requestContext.domainName}`);
  // Assigned, not concatenated: HTTP APIs decode the path, and then it may hold ? and #.
  url.pathname = event.rawPath;
  url.search = event.rawQueryString;
  return { method: http.method, url, body: bodyOf(event) };
}

/** The request as receivers take it, with the bytes of the body as they were sent. */
export function requestFromEvent(
  event: APIGatewayProxyEventV2,
  functionName = "webhookFunction",
): PlainRequest {
  const { method, url, body } = readHttpEvent(event, functionName);
  const client = event.requestContext.http.sourceIp;
  const called = `${url.origin}${url.pathname}${queryOf(event)}`;
  return { method, url: called, path: url.pathname, headers: headersIn(event), body, client };
}

/** As it was sent, because providers sign it: `URL` would write an apostrophe as an escape. */
const queryOf = ({ rawQueryString }: APIGatewayProxyEventV2): string =>
  rawQueryString ? `?${rawQueryString.replaceAll("#", "%23")}` : "";

/** AWS joins repeated headers with commas, and brings cookies in a list of their own. */
function headersIn({ headers = {}, cookies = [] }: APIGatewayProxyEventV2): IncomingHeaders {
  const all = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  if (cookies.length > 0) all.set("cookie", cookies.join("; "));
  return { get: (name) => all.get(name.toLowerCase()) ?? null };
}

const bodyOf = ({ body, isBase64Encoded }: APIGatewayProxyEventV2): Buffer | null =>
  typeof body === "string" ? Buffer.from(body, isBase64Encoded ? "base64" : "utf8") : null;

export const resultFromPlain = (response: PlainResponse): APIGatewayProxyStructuredResultV2 => ({
  statusCode: response.status,
  headers: headersOf(response),
  body: response.body ?? "",
  isBase64Encoded: false,
});

/** For routes with names in their paths: a name may hold a percent sign, and must not be decoded twice. */
export const requestWithEncodedPath = (
  event: APIGatewayProxyEventV2,
  functionName: string,
): PlainRequest => ({
  ...requestFromEvent(event, functionName),
  path: encodedPath(event),
});

/** HTTP APIs decode the path, and function URLs do not. */
function encodedPath({ rawPath, requestContext: { domainName } }: APIGatewayProxyEventV2): string {
  if (domainName.includes(".lambda-url.")) return rawPath;
  return rawPath.toWellFormed().split("/").map(encodeURIComponent).join("/");
}

/** The content of a wake-up, as the event of an invocation or as a message in a queue. */
export const wakeUpMessage = { oncebox: "wake-up" } as const;

type DispatchTrigger = "schedule" | "wake-up" | "queue";

/**
 * What started the dispatch function. One run serves all messages of a queue's batch. An event that is neither
 * a batch nor a wake-up is a schedule's, because a schedule's event may have any content.
 */
export function triggerOf(event: unknown): DispatchTrigger {
  const { oncebox, Records: records } = (event ?? {}) as { oncebox?: unknown; Records?: unknown };
  if (oncebox === wakeUpMessage.oncebox) return "wake-up";
  const isBatch = Array.isArray(records) && records.some((record) => record?.eventSource === "aws:sqs");
  return isBatch ? "queue" : "schedule";
}

/** The tenant batches of an event: an invocation's own, or the batches in the messages of a queue. */
export function tenantBatchesOf(event: unknown): readonly TenantBatch[] {
  const { Records: records } = (event ?? {}) as { readonly Records?: unknown };
  return tenantBatchesIn(Array.isArray(records) ? records.map((record) => parsed(record?.body)) : [event]);
}

/** A message that is not JSON is not ours. */
function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}

/** The remaining time of a Lambda invocation. Lambda sends no signal before it kills, so the signal never fires. */
export function lambdaBudget(context: Pick<Context, "getRemainingTimeInMillis">): Budget {
  return {
    signal: new AbortController().signal,
    remainingMs: () => Math.max(0, context.getRemainingTimeInMillis()),
  };
}
