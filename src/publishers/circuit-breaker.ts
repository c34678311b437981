import { withinTime } from "../base/async.js";
import { type LoggerOption, loggerOf, safeReason } from "../base/logger.js";
import { guardedMetrics, type Metrics } from "../base/telemetry.js";
import { PermanentFailure, retryAfter } from "../dispatch/settlement.js";
import { ArgumentRangeError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";

/** When a circuit breaker opens, and for how long. */
export interface BreakerPolicy {
  /** The breaker opens after this many failures in a row: 5 by default. */
  readonly failures: number;
  /** How long it stays open: 10 s by default. Each failed trial doubles the time. */
  readonly openMs: number;
  /** The longest time it stays open: 5 min by default. */
  readonly maxOpenMs: number;
  /** A trial that takes longer has failed: 30 s by default; for a publisher, its `timeoutMs`. */
  readonly trialMs: number;
}

const defaults: BreakerPolicy = { failures: 5, openMs: 10_000, maxOpenMs: 300_000, trialMs: 30_000 };

export interface BreakerReports {
  readonly logger?: LoggerOption;
  readonly metrics?: Metrics;
  /** For tests: the time in milliseconds. */
  readonly now?: () => number;
}

/** Keeps messages from a destination that fails. */
export interface CircuitBreaker {
  /**
   * Runs a call. While the breaker is open it throws `retryAfter` instead. A call that fails after `signal` was aborted
   * is not counted: the abort ended it, not the destination.
   */
  run<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T>;
  readonly state: "closed" | "open" | "trial";
}

/**
 * Opens after several failures in a row, and then calls the destination no more, so that a broken destination costs the
 * others no time. After `openMs` one trial call is let through. When it succeeds, the breaker closes. A trial that takes
 * longer than `trialMs` has failed.
 */
export function circuitBreaker(
  destination: string,
  overrides: Partial<BreakerPolicy> = {},
  { logger: givenLogger, metrics: givenMetrics, now = () => performance.now() }: BreakerReports = {},
): CircuitBreaker {
  refuseUnknown(overrides, Object.keys(defaults), "breaker");
  const policy = { ...defaults, ...overrides };
  for (const name of ["openMs", "maxOpenMs", "trialMs"] as const)
    requireDuration(policy[name], `breaker: ${name}`);
  if (!Number.isInteger(policy.failures) || policy.failures < 1)
    throw new ArgumentRangeError(
      `breaker: failures must be a whole number from 1 on, not ${String(policy.failures)}.`,
    );
  const logger = loggerOf(givenLogger);
  const metrics = givenMetrics && guardedMetrics(givenMetrics);
  const count = (event: "opened" | "closed" | "refused"): void =>
    metrics?.count("oncebox.breaker", 1, { destination, event });
  let failures = 0;
  let openings = 0;
  let openUntil: number | undefined;
  let trying = false;

  const waitMs = (): number => {
    if (openUntil === undefined) return 0;
    return trying ? policy.openMs : Math.max(0, openUntil - now());
  };
  const succeeded = (): void => {
    if (openUntil !== undefined) {
      logger.info("circuit breaker closed", { destination });
      count("closed");
    }
    failures = 0;
    openings = 0;
    openUntil = undefined;
  };
  const failed = (error: unknown): void => {
    failures++;
    if (openUntil === undefined && failures < policy.failures) return;
    const openMs = Math.min(policy.maxOpenMs, policy.openMs * 2 ** openings);
    openUntil = now() + openMs;
    openings++;
    logger.error("circuit breaker opened", { destination, failures, openMs, reason: safeReason(error) });
    count("opened");
  };
  const tooLate = () => new Error(`${destination} did not end the trial within ${policy.trialMs} ms.`);

  return {
    get state() {
      return openUntil === undefined ? "closed" : waitMs() > 0 ? "open" : "trial";
    },
    async run(call, signal) {
      const wait = waitMs();
      if (wait > 0) {
        count("refused");
        throw retryAfter(
          wait,
          `${destination} has been failing. Its circuit breaker is open for ${Math.ceil(wait)} ms.`,
          { costsAttempt: false },
        );
      }
      const isTrial = openUntil !== undefined;
      if (isTrial) trying = true;
      try {
        const result = await (isTrial ? withinTime(policy.trialMs, call(), tooLate) : call());
        if (isTrial || openUntil === undefined) succeeded();
        return result;
      } catch (error) {
        // A destination that refuses one message is working.
        if (isMessageFault(error)) {
          if (isTrial) succeeded();
        } else if (!signal?.aborted && (isTrial || openUntil === undefined)) failed(error); // not calls that began before it opened
        throw error;
      } finally {
        if (isTrial) trying = false;
      }
    },
  };
}

/** For `breaker: false`. */
export const noBreaker: CircuitBreaker = { state: "closed", run: (call) => call() };

/** The destination works, and refuses this message. It is retried, because the destination may learn to take it. */
export class RefusedMessage extends Error {}

/** Whether the message is at fault. Then the failure does not count against its destination. */
export const isMessageFault = (error: unknown): boolean =>
  error instanceof PermanentFailure || error instanceof RefusedMessage;
