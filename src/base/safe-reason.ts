/** What may be logged of an error. Ours never quote anything; another's message may quote what was sent, or a connection string, so only its name and code are told. */
export function safeReason(error: unknown): string {
  const { name, code, number, message } = (error ?? {}) as Record<string, unknown>;
  if (typeof code === "string" && code.startsWith("ONCEBOX_")) return String(message);
  // SQL Server's errors have a number
  return [name ?? "Error", code, number]
    .filter((part) => typeof part === "string" || typeof part === "number")
    .join(" ");
}
