import type { AdminRoute } from "./admin-route.js";
import type { Answer } from "./responses.js";

/**
 * What a store refuses although the fields are right: a message that is not dead, an operation that is unknown. Undefined
 * for a failure.
 */
export function refusedCall(error: unknown, { method }: AdminRoute): Answer | undefined {
  const { code, message } = Object(error) as { readonly code?: unknown; readonly message?: unknown };
  if (code === "ONCEBOX_INVALID_ARGUMENT" || code === "ONCEBOX_ARGUMENT_RANGE")
    return { badRequest: { code: "InvalidField", message: String(message), field: "request" } };
  // Of a read it can only mean that the store is closed, or badly configured.
  return code === "ONCEBOX_INVALID_OPERATION" && method === "POST"
    ? { conflict: String(message) }
    : undefined;
}
