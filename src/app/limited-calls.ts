import { type Budget, timeBudget } from "../base/budget.js";
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

  const budgetOf = (what: string, limits: TimeLimits | Budget = {}): Budget => {
    if ("remainingMs" in limits) return withSignal(limits, closing.signal);
    refuseUnknown(limits, ["timeMs", "signal"], what);
    const { timeMs = defaultMs, signal = closing.signal } = limits;
    return withSignal(timeBudget(timeMs, signal), closing.signal);
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
      closing.abort();
      await Promise.all(running);
    },
  };
}

const withSignal = (budget: Budget, other: AbortSignal): Budget => ({
  signal: budget.signal === other ? other : AbortSignal.any([budget.signal, other]),
  remainingMs: () => budget.remainingMs(),
});
