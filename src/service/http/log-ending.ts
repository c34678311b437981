import type { Logger } from "../../base/logger.js";
import type { Ending } from "./responses.js";

/** One line per request. It has no key, no lease id and no token; the alarms of both clouds read its message and status. */
export function logEnding(logger: Logger, operation: string, { response, outcome, reason }: Ending): void {
  const { status } = response;
  const level = status >= 500 ? "error" : status >= 400 ? "warn" : "debug";
  logger[level]("inbox service", { operation, outcome, status, reason });
}
