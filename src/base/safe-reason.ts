/**
 * The part of an error that may be logged. Errors of this package quote no payload and no secret. A message of any other
 * error may quote parameters or a connection string, so only its name and code are returned.
 */
export function safeReason(error: unknown): string {
  const { name, code, number, message } = (error ?? {}) as Record<string, unknown>;
  if (typeof code === "string" && code.startsWith("ONCEBOX_")) return String(message);
  // SQL Server's errors have a number, not a code
  return [name ?? "Error", code, number]
    .filter((part) => typeof part === "string" || typeof part === "number")
    .join(" ");
}
