import type { Context } from "aws-lambda";
import type { Budget } from "../../base/budget.js";

/** Lambda says when it will kill, and nothing before that: the signal never fires. */
export function lambdaBudget(context: Pick<Context, "getRemainingTimeInMillis">): Budget {
  return {
    signal: new AbortController().signal,
    remainingMs: () => Math.max(0, context.getRemainingTimeInMillis()),
  };
}
