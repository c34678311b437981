import type { ReceiveOutcome } from "../inbox/inbox.js";
import type { Answer } from "./http.js";
import type { WebhookScheme } from "./schemes/scheme.js";

const quiet = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

export const jsonAnswer = (status: number, body: object, headers: Record<string, string> = {}): Answer => ({
  status,
  headers: { ...quiet, "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
});

/** 200 for every outcome: the message is stored, and not every provider accepts another 2xx as success. */
export function acceptedAnswer(scheme: WebhookScheme, outcome: ReceiveOutcome, messageId: string): Answer {
  if (scheme.answer === undefined) return jsonAnswer(200, { outcome, messageId });
  const { contentType, body } = scheme.answer;
  return { status: 200, headers: { ...quiet, "content-type": contentType }, body };
}

export const textAnswer = (text: string, headers: Record<string, string>): Answer => ({
  status: 200,
  headers: { ...quiet, "content-type": "text/plain", ...headers },
  body: text,
});

/** The answers when nothing was stored. They name the kind of failure and never its details. */
const refusals = {
  "bad request": 400,
  unauthorized: 401,
  "not found": 404,
  "method not allowed": 405,
  "too large": 413,
  "unsupported media type": 415,
  unavailable: 503,
} as const;

export type RefusalName = keyof typeof refusals;

/** How long a provider that reads the header should wait before it tries again. */
const retryAfterSeconds = "10";

export function refusedAnswer(error: RefusalName, headers: Record<string, string> = {}): Answer {
  const retry: Record<string, string> = error === "unavailable" ? { "retry-after": retryAfterSeconds } : {};
  return jsonAnswer(refusals[error], { error }, { ...retry, ...headers });
}
