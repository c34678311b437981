import { atHalfTime, type Budget, budgetWithoutLast, withinTime } from "../base/async.js";
import { type Logger, safeReason } from "../base/logger.js";
import { InvalidOperationError } from "../errors.js";

/** Starts a dispatcher soon. It may be called without need, and may fail: the timer dispatches anyway. */
export interface WakeUp {
  wake(): Promise<void>;
  /** Loads what `wake` needs (a client, say) ahead of the first call. */
  prepare?(): void;
}

/**
 * A burst of webhooks wakes the dispatcher once per interval. A message that arrives within the interval after a wake-up
 * is found by the dispatcher that the wake-up started, because it polls once more after `lingerMs`, which is longer.
 */
export const wakeUpIntervalMs = 200;
export const lingerMs = 500;

export function coalesced(wakeUp: WakeUp, now?: () => number): WakeUp {
  const wake = throttleByKey(wakeUpIntervalMs, () => wakeUp.wake(), now);
  return { wake: () => wake("") };
}

/** Keys that are remembered. Beyond that all are forgotten, which costs a few calls more and bounds the memory. */
const maxKeys = 10_000;

/**
 * Calls at most once per key and interval, and never twice at once: whoever asks while a call runs gets its result. The interval
 * is measured from the start of the last call that succeeded: the second poll of a dispatcher finds a message that commits
 * while the call runs.
 */
export function throttleByKey(
  intervalMs: number,
  call: (key: string) => Promise<void>,
  now: () => number = () => performance.now(),
): (key: string) => Promise<void> {
  const last = new Map<string, number>();
  const running = new Map<string, Promise<void>>();
  const start = async (key: string): Promise<void> => {
    const startedAt = now();
    await call(key);
    if (last.size >= maxKeys) last.clear();
    last.set(key, startedAt);
  };
  return async (key) => {
    if (!running.has(key)) {
      if (now() - (last.get(key) ?? Number.NEGATIVE_INFINITY) < intervalMs) return;
      running.set(
        key,
        start(key).finally(() => running.delete(key)),
      );
    }
    await running.get(key);
  };
}

/** The longest time that the sender of a message, or the end of a run, waits for a wake-up. */
export const longestWakeMs = 1_000;

/** Wakes the dispatcher after a commit, and waits for it, at most `maxMs` if given. Never rejects: the timer dispatches anyway. */
export function wakeAfterCommit(waker: WakeUp, logger: Logger, maxMs?: number): () => Promise<void> {
  const wakeUp = coalesced(waker);
  waker.prepare?.(); // while the rest of the cold start goes on
  const tooLate = () => new InvalidOperationError(`The wake-up was still running after ${maxMs} ms.`);
  return async () => {
    try {
      await (maxMs === undefined ? wakeUp.wake() : withinTime(maxMs, wakeUp.wake(), tooLate));
    } catch (error) {
      logger.warn("waking the dispatcher failed; the messages are safe", { error: safeReason(error) });
    }
  };
}

/** The time that the function needs to return its result. */
const returnMs = 50;

/** The invocation that continues when a run's time is over before its work. */
export function successorOf(wakeUp: WakeUp, budget: Budget, logger: Logger) {
  const keptMs = Math.min(budget.remainingMs() / 10, longestWakeMs); // for waking
  const cancelPrepare = atHalfTime(budget, () => wakeUp.prepare?.());
  return {
    /** The budget of the work itself: without the time that waking takes. */
    budgetBefore: budgetWithoutLast(budget, keptMs),
    /** Ends within the run's time, and logs a failure instead of throwing it: the timer continues the work later anyway. */
    async wake(): Promise<void> {
      const ms = Math.min(budget.remainingMs() - returnMs, longestWakeMs);
      try {
        await withinTime(ms, wakeUp.wake(), () => new LateError());
      } catch (error) {
        logger.warn("waking a successor failed", { error: (error as Error)?.name ?? "Error" });
      }
    },
    close: cancelPrepare,
  };
}

class LateError extends Error {
  override readonly name = "late";
}
