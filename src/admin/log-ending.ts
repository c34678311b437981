import type { Logger } from "../base/logger.js";
import type { Ended } from "./responses.js";

/**
 * One line per request: who asked for what, and how it ended. What changed something or showed a payload is written at
 * info. It has no token and no value of the query or the body; of a payload that was shown, the message's key.
 */
export function logEnding(logger: Logger, { ending, route = "none", by, tenant }: Ended): void {
  const { response, outcome, details } = ending;
  const { status } = response;
  const isOfNote = route.startsWith("POST") || details?.payload === true;
  const level = status >= 500 ? "error" : status >= 400 ? "warn" : isOfNote ? "info" : "debug";
  logger[level]("admin", { route, outcome, status, by, tenant, ...details });
}
