import type { LogFields, Logger } from "../base/logger.js";
import type { Refusal } from "./fields.js";
import type { PlainResponse } from "./plain.js";
import { apiResults, type HttpResult, requestLog } from "./results.js";

/** What a route returns. A refusal is not thrown: it is expected. */
export type Answer =
  | { readonly ok: unknown; readonly status?: 200 | 503; readonly details?: LogFields }
  | { readonly notFound: string }
  | { readonly conflict: string }
  | { readonly badRequest: Refusal };

const api = apiResults({ realm: "oncebox admin" });

export const adminResults = {
  ...api,
  answer(answer: Answer): HttpResult {
    if ("notFound" in answer) return api.refused(404, "NotFound", answer.notFound);
    if ("conflict" in answer) return api.refused(409, "Conflict", answer.conflict);
    if ("badRequest" in answer) return api.badRequest(answer.badRequest);
    const { status = 200, ok, details } = answer;
    return { ...api.json(status, status === 200 ? "OK" : "Unavailable", ok), details };
  },
  tooMany: (seconds: number): HttpResult =>
    api.refused(429, "TooManyRequests", "Too many requests, or too many wrong tokens. Wait, and try again.", {
      "retry-after": String(seconds),
    }),
  notFound: (): HttpResult => api.refused(404, "NotFound", "There is nothing at this path."),
  /** The reason names no host, no user and no value: see `safeReason`. */
  unavailable: (reason: string): HttpResult =>
    api.unavailable(`The database, or what else is needed, did not answer: ${reason}`, reason),
};

/** A request that has been answered, for the log. */
export interface AnsweredRequest {
  readonly result: HttpResult;
  readonly route?: string;
  readonly by?: string;
  readonly tenant?: string | undefined;
}

/**
 * Who asked for what, and how it ended. What changed something or showed a payload is written at info; of a payload that
 * was shown, the line has the message's key.
 */
export function adminLog(logger: Logger, now: () => number): (answered: AnsweredRequest) => void {
  const log = requestLog(logger, "admin", now);
  return ({ result, route = "none", by, tenant }) => {
    const isOfNote = route.startsWith("POST") || result.details?.payload === true;
    const level = isOfNote ? "info" : "debug";
    log(result, { subject: { route }, fields: { by, tenant }, level, isProven: by !== undefined });
  };
}

/** The response of a host that could not make the API, with its log line. The reason is only logged: nobody has shown a token. */
export function unavailableAdmin(logger: Logger, reason: string): PlainResponse {
  const result = adminResults.unavailable("the function could not start.");
  adminLog(logger, Date.now)({ result: { ...result, details: { reason } } });
  return result.response;
}
