import type { PlainResponse } from "../base/plain-http.js";
import type { ReceiveOutcome } from "../inbox/receiver.js";
import { refusalStatuses } from "./schemes/refusal-statuses.js";
import type { Answer, RefusalName, WebhookScheme } from "./schemes/scheme.js";

const quiet = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

export const jsonResponse = (
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): PlainResponse => ({
  status,
  headers: { ...quiet, ...headers },
  body: JSON.stringify(body),
});

/** What a delivery that was stored is answered with. */
export interface AcceptedDelivery {
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
function fixedResponse(usual: number, answer: Answer, headers: Record<string, string> = {}): PlainResponse {
  const { status = usual, contentType, body = "", json } = answer;
  const type: Record<string, string> = contentType === undefined ? {} : { "content-type": contentType };
  const text = json === undefined ? body : JSON.stringify(json);
  const isBare = status === 204 || status === 205; // they have no body, whatever the scheme says
  return { status, headers: { ...quiet, ...type, ...headers }, body: isBare ? "" : text };
}

export const textResponse = (
  status: number,
  text: string,
  headers: Record<string, string>,
): PlainResponse => ({
  status,
  headers: { ...quiet, "content-type": "text/plain", ...headers },
  body: text,
});

/** How long a provider that reads the header should wait before it tries again. */
const retryAfterSeconds = "10";

/** The response when nothing was stored. It names the kind of failure and never its details. */
export function refusedResponse(
  error: RefusalName,
  headers: Record<string, string> = {},
  answers: WebhookScheme["refusals"] = {},
): PlainResponse {
  const retry: Record<string, string> = error === "unavailable" ? { "retry-after": retryAfterSeconds } : {};
  const all = { ...retry, ...headers };
  const answer = answers[error];
  if (answer !== undefined) return fixedResponse(refusalStatuses[error], answer, all);
  return jsonResponse(refusalStatuses[error], { error }, all);
}
