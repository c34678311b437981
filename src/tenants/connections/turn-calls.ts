import { AsyncLocalStorage } from "node:async_hooks";
import type { Budget } from "../../base/budget.js";
import { InvalidOperationError } from "../../errors.js";

/** The calls to tenants' databases that one turn makes. */
interface TurnCalls {
  readonly over: AbortController;
  running: number;
}

const current = new AsyncLocalStorage<TurnCalls>();

/**
 * Does a turn's work. Its calls to tenants' databases are aborted when the turn is abandoned. A handler that was given up
 * may leave calls behind: they are aborted when the turn's time is over. Otherwise they would keep their connections.
 */
export async function inTurn<T>(
  turnBudget: Budget,
  abandoned: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const calls: TurnCalls = { over: new AbortController(), running: 0 };
  const abort = (): void => calls.over.abort(abandoned.reason ?? turnOver());
  abandoned.addEventListener("abort", abort);
  try {
    return await current.run(calls, work);
  } finally {
    if (calls.running > 0) setTimeout(abort, turnBudget.remainingMs()).unref();
  }
}

/** Makes a call with a signal that follows its own and the one of the turn that it belongs to. */
export async function callInTurn<T>(
  own: AbortSignal | undefined,
  call: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const calls = current.getStore();
  if (calls === undefined) return call(own);
  const either = own === undefined ? undefined : follow(own, calls.over.signal);
  calls.running++;
  try {
    return await call(either?.signal ?? calls.over.signal);
  } finally {
    calls.running--;
    either?.end();
  }
}

/** As AbortSignal.any, but a signal that lives as long as the process does not remember every call. */
function follow(...signals: readonly AbortSignal[]) {
  const controller = new AbortController();
  const abort = (): void => controller.abort(signals.find((signal) => signal.aborted)?.reason);
  if (signals.some((signal) => signal.aborted)) abort();
  for (const signal of signals) signal.addEventListener("abort", abort);
  return {
    signal: controller.signal,
    end: () => {
      for (const signal of signals) signal.removeEventListener("abort", abort);
    },
  };
}

const turnOver = () => new InvalidOperationError("The tenant's turn is over, and its calls were aborted.");
