import type { Context } from "aws-lambda";
import type { Budget } from "../../base/budget.js";

/** The remaining time of a Lambda invocation. Lambda sends no signal before it kills, so the signal never fires. */
export function lambdaBudget(context: Pick<Context, "getRemainingTimeInMillis">): Budget {
  return {
    signal: new AbortController().signal,
    remainingMs: () => Math.max(0, context.getRemainingTimeInMillis()),
  };
}
