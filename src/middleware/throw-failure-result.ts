import { PermanentFailure, RetryAfter } from "../dispatch/settlement.js";

/** A handler may return `permanentFailure` or `retryAfter`, as in a dispatcher. Returned to the middleware, it would commit. */
export function throwFailureResult(output: unknown): unknown {
  if (output instanceof PermanentFailure || output instanceof RetryAfter) throw output;
  return output;
}
