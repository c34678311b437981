import type { Logger } from "../../base/logger.js";
import type { PlainResponse } from "../../http/plain.js";
import { apiResults, type HttpResult, logResult } from "../../http/results.js";

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
  logRequest(logger, "none", result);
  return result.response;
}

/** Of a bad request the log gets the kind of problem only: a key may hold personal data. */
export function logRequest(logger: Logger, call: string, { details, ...result }: HttpResult): void {
  const fields = { reason: details?.reason };
  logResult(logger, "inbox service", result, { subject: { call }, fields });
}
