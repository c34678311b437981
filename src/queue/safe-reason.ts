/** What may be logged of an error. Ours never quote anything; another's message may quote what was sent, or a connection string, so only its name and code are told. */
export function safeReason(error: unknown): string {
  const { name, code, message } = (error ?? {}) as Record<"name" | "code" | "message", unknown>;
  if (typeof code === "string" && code.startsWith("ONCEBOX_")) return String(message);
  return [name, code].filter((part) => typeof part === "string" || typeof part === "number").join(" ");
}
