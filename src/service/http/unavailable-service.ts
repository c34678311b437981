import type { Logger } from "../../base/logger.js";
import type { PlainResponse } from "../../base/plain-http.js";
import { logEnding } from "./log-ending.js";
import { type Auth, serviceResponses } from "./responses.js";

/** The response of a host that could not make the service, with its log line. */
export function unavailableService(auth: Auth, logger: Logger, reason: string): PlainResponse {
  const ending = serviceResponses(auth).unavailable(reason);
  logEnding(logger, "none", ending);
  return ending.response;
}
