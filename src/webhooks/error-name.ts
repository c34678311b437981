/** An error's code and name; its message may quote what was sent, or a connection string. */
export function errorName(error: unknown): string {
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown };
  return [name, code].filter((part) => typeof part === "string" || typeof part === "number").join(" ");
}
