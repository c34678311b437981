import { omitUndefined } from "../base/defined.js";
import { type LogFields, type Logger, safeReason } from "../base/logger.js";
import { type SpanEnd, type SpanStart, traceHeaderNames } from "../base/telemetry.js";
import type { BodyRefusal } from "../http/body.js";
import {
  jsonResponse,
  logLevelOf,
  type PlainRequest,
  type PlainResponse,
  type ResponseHeaders,
  textResponse,
} from "../http/plain.js";
import { refusalLog } from "../http/refusal-log.js";
import type { ReceiveOutcome } from "../inbox/receiver.js";
import type { ReceivedWebhook } from "./route-options.js";
import { type Answer, type RefusalName, refusalStatuses, type WebhookScheme } from "./schemes/scheme.js";

/** How a request ended. */
export type WebhookResult = AnsweredWebhook | RefusedWebhook;

interface AnsweredWebhook {
  readonly outcome: ReceiveOutcome | "handshake" | "empty";
  readonly response: PlainResponse;
  readonly webhook?: ReceivedWebhook;
  /** How many messages of a split delivery had which outcome. */
  readonly counts?: Readonly<Partial<Record<ReceiveOutcome, number>>>;
}

/** Nothing was stored. The scheme may say what the response is. */
interface RefusedWebhook {
  readonly outcome: RefusalName;
  readonly response?: undefined;
  /** For the log only. */
  readonly reason: string;
  readonly headers?: ResponseHeaders | undefined;
  readonly webhook?: ReceivedWebhook;
}

export const refuse = (outcome: RefusalName, reason: string, headers?: ResponseHeaders): RefusedWebhook => ({
  outcome,
  reason,
  headers,
});

export const bodyRefusals: Readonly<Record<BodyRefusal, readonly [RefusalName, string]>> = {
  "too large": ["too large", "body above the limit"],
  malformed: ["bad request", "the body could not be read"],
  "too slow": ["too slow", "the body did not arrive in time"],
  "too many": ["unavailable", "too many bodies are being read"],
};

/** An unavailable secret store is like an unavailable database: the provider tries again. */
export const failureOf = (error: unknown): WebhookResult => refuse("unavailable", safeReason(error));

/** What a delivery that was stored is answered with. */
interface AcceptedDelivery {
  readonly outcome: ReceiveOutcome | "empty";
  readonly messageId?: string | undefined;
  /** Each message of a split delivery. */
  readonly messages?: readonly { readonly messageId: string; readonly outcome: ReceiveOutcome }[] | undefined;
}

/** 200 for every outcome: the message is stored, and not every provider accepts another 2xx as success. */
export function acceptedResponse({ answer }: WebhookScheme, accepted: AcceptedDelivery): PlainResponse {
  if (answer === undefined) return jsonResponse(200, accepted);
  const { outcomes, ...usual } = answer;
  return fixedResponse(200, outcomes?.[accepted.outcome as ReceiveOutcome] ?? usual);
}

/** An answer that the scheme has written out. */
function fixedResponse(usual: number, answer: Answer, headers: ResponseHeaders = {}): PlainResponse {
  const { status = usual, contentType, body = "", json } = answer;
  const text = json === undefined ? body : JSON.stringify(json);
  const isBare = status === 204 || status === 205; // they have no body, whatever the scheme says
  return textResponse(status, isBare ? "" : text, {
    ...(contentType && { "content-type": contentType }),
    ...headers,
  });
}

/** How long a provider that reads the header should wait before it tries again. */
const retryAfterSeconds = "10";

/** The response when nothing was stored. It names the kind of failure and never its details. */
export function refusedResponse(
  error: RefusalName,
  headers: ResponseHeaders = {},
  answers: WebhookScheme["refusals"] = {},
): PlainResponse {
  const all = error === "unavailable" ? { "retry-after": retryAfterSeconds, ...headers } : headers;
  const answer = answers[error];
  if (answer !== undefined) return fixedResponse(refusalStatuses[error], answer, all);
  return jsonResponse(refusalStatuses[error], { error }, all);
}

/** Logs how requests ended: those of verified senders each time. */
export function resultLog(logger: Logger, now: () => number): (fields: LogFields) => void {
  const logRefusal = refusalLog(logger, now);
  return (fields) => {
    const { status, messageId, source, outcome, reason } = fields;
    const level = logLevelOf(Number(status), "info");
    const isVerified = messageId !== undefined;
    if (level === "info" || isVerified) logger[level]("webhook", fields);
    else logRefusal({ level, message: "webhook", fields, kind: [source, outcome], detail: reason });
  };
}

/**
 * The span of one request. It links to the provider's context and is no child of it: anybody may send a `traceparent`, and
 * would decide what is sampled, and under which trace.
 */
export const webhookSpan = (source: string, { headers }: Pick<PlainRequest, "headers">): SpanStart => ({
  name: `webhook ${source}`,
  kind: "server",
  cause: Object.fromEntries(
    traceHeaderNames.flatMap((name) => {
      const value = headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  ),
  attributes: {
    "messaging.system": "oncebox",
    "messaging.operation.name": "receive",
    "oncebox.source": source,
  },
});

export const webhookSpanEnd = (status: number, { outcome, webhook }: WebhookResult): SpanEnd => ({
  error: status >= 500 ? outcome : undefined,
  attributes: omitUndefined({
    "oncebox.outcome": outcome,
    "http.response.status_code": status,
    "messaging.destination.name": webhook?.topic,
    "messaging.message.id": webhook?.messageId,
  }),
});
