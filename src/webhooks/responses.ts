import type { PlainResponse } from "../base/plain-http.js";
import type { ReceiveOutcome } from "../inbox/inbox.js";
import type { WebhookScheme } from "./schemes/scheme.js";

const quiet = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

export const jsonResponse = (
  status: number,
  body: object,
  headers: Record<string, string> = {},
): PlainResponse => ({
  status,
  headers: { ...quiet, ...headers },
  body: JSON.stringify(body),
});

/** 200 for every outcome: the message is stored, and not every provider accepts another 2xx as success. */
export function acceptedResponse(
  scheme: WebhookScheme,
  outcome: ReceiveOutcome,
  messageId: string,
): PlainResponse {
  if (scheme.answer === undefined) return jsonResponse(200, { outcome, messageId });
  const { contentType, body } = scheme.answer;
  return { status: 200, headers: { ...quiet, "content-type": contentType }, body };
}

export const textResponse = (text: string, headers: Record<string, string>): PlainResponse => ({
  status: 200,
  headers: { ...quiet, "content-type": "text/plain", ...headers },
  body: text,
});

/** The responses when nothing was stored. They name the kind of failure and never its details. */
const refusals = {
  "bad request": 400,
  unauthorized: 401,
  "not found": 404,
  "method not allowed": 405,
  "too slow": 408,
  "too large": 413,
  "unsupported media type": 415,
  unavailable: 503,
} as const;

export type RefusalName = keyof typeof refusals;

/** How long a provider that reads the header should wait before it tries again. */
const retryAfterSeconds = "10";

export function refusedResponse(error: RefusalName, headers: Record<string, string> = {}): PlainResponse {
  const retry: Record<string, string> = error === "unavailable" ? { "retry-after": retryAfterSeconds } : {};
  return jsonResponse(refusals[error], { error }, { ...retry, ...headers });
}
