import type { Logger } from "../base/logger.js";
import type { PlainResponse } from "../base/plain-http.js";
import { logEnding } from "./log-ending.js";
import { adminResponses } from "./responses.js";

/** The response of a host that could not make the API, with its log line. The reason is for the log alone: nobody has shown a token. */
export function unavailableAdmin(logger: Logger, reason: string): PlainResponse {
  const { response } = adminResponses.unavailable("the function could not start.");
  logEnding(logger, { ending: { response, outcome: "Unavailable", details: { reason } } });
  return response;
}
