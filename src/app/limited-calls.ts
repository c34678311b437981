import { type Budget, timeBudget } from "../base/async.js";
import { workerDurations } from "../dispatch/worker.js";
import { refuseUnknown } from "../queue/arguments.js";

/** How long a call may take. */
export interface TimeLimits {
  /** That of the definition's `cron` by default: 25 s where it has none. */
  readonly timeMs?: number;
  /** Ends it before: running handlers are finished or aborted, and settled. */
  readonly signal?: AbortSignal;
}

export type LimitedCalls = ReturnType<typeof limitedCalls>;

/** Calls with a budget of time. `end` aborts those that run, and waits for them. */
export function limitedCalls(defaultMs: number) {
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  let endsAt = Number.POSITIVE_INFINITY;

  const untilEnd = (budget: Budget): Budget => ({
    signal: AbortSignal.any([budget.signal, closing.signal]),
    remainingMs: () => Math.max(0, Math.min(budget.remainingMs(), endsAt - performance.now())),
  });
  const budgetOf = (what: string, limits: TimeLimits | Budget = {}): Budget => {
    if ("remainingMs" in limits) return untilEnd(limits);
    refuseUnknown(limits, ["timeMs", "signal"], what);
    const { timeMs = defaultMs, signal } = limits;
    return untilEnd(signal === undefined ? timeBudget(timeMs) : timeBudget(timeMs, signal));
  };
  const tracked = <T>(call: Promise<T>): Promise<T> => {
    const ended = call.catch(() => {}).finally(() => running.delete(ended));
    running.add(ended);
    return call;
  };
  return {
    budgetOf,
    tracked,
    /** A call by its name, which errors mention. */
    call:
      <T>(what: string, run: (budget: Budget) => Promise<T>) =>
      async (limits?: TimeLimits | Budget): Promise<T> =>
        tracked(run(budgetOf(what, limits))),
    async end(): Promise<void> {
      endsAt = performance.now() + workerDurations.drainMs;
      closing.abort();
      await Promise.all(running);
    },
  };
}
