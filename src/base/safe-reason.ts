import { nameAndCode } from "./logged-error.js";

/** These have a text of the handler's own. */
const textOfHandler = ["ONCEBOX_PERMANENT_FAILURE", "ONCEBOX_RETRY_AFTER"];

/**
 * The part of an error that may be logged. Errors of this package quote no payload and no secret. A message of any other
 * error may quote parameters or a connection string, so only its name and code are returned.
 */
export function safeReason(error: unknown): string {
  const { code, message } = (error ?? {}) as Record<string, unknown>;
  const isOwn = typeof code === "string" && code.startsWith("ONCEBOX_") && !textOfHandler.includes(code);
  return isOwn ? String(message) : nameAndCode(error);
}
