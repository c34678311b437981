import type { Logger } from "../../base/logger.js";
import type { PlainResponse } from "../../http/plain.js";
import { apiResults, type HttpResult, requestLog } from "../../http/results.js";

export type Auth = "bearer" | "none";

/** The results of a service that announces this kind of authentication. */
export function serviceResults(auth: Auth) {
  const api = apiResults({ headers: { "oncebox-auth": auth }, realm: "oncebox" });
  return {
    ...api,
    ok: (value: { readonly status: string }): HttpResult => api.json(200, value.status, value),
    /** Without tokens, a page of another site could use the service through the browser of somebody who can reach it. */
    forbidden: (): HttpResult => api.empty(403, "Forbidden"),
    notFound: (): HttpResult =>
      api.refused(
        404,
        "NotFound",
        "There is nothing at this path. The paths are listed in /v1/openapi.json.",
      ),
    unavailable: (reason: string): HttpResult =>
      api.unavailable("The service cannot reach what it needs. Try again.", reason),
  };
}

/** The response of a host that could not make the service, with its log line. */
export function unavailableService(auth: Auth, logger: Logger, reason: string): PlainResponse {
  const result = serviceResults(auth).unavailable(reason);
  serviceLog(logger, Date.now)({ call: "none", result, isProven: false });
  return result.response;
}

/** Of a bad request the log gets the kind of problem only: a key may hold personal data. */
export function serviceLog(logger: Logger, now: () => number): (answered: AnsweredCall) => void {
  const log = requestLog(logger, "inbox service", now);
  return ({ call, result: { details, ...result }, isProven }) =>
    log(result, { subject: { call }, fields: { reason: details?.reason }, isProven });
}

interface AnsweredCall {
  readonly call: string;
  readonly result: HttpResult;
  /** Whether the caller has shown a right token. */
  readonly isProven: boolean;
}
