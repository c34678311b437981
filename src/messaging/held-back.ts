import { safeReason } from "../base/safe-reason.js";
import { singleFlight } from "../base/single-flight.js";
import { describeThrown, RetryAfter, withOwnText } from "../dispatch/settlement.js";
import type { ServiceParts } from "./service-parts.js";

/** The messages of one destination that wait because its circuit breaker is open. */
export interface HeldBack {
  /** The error for a message that the breaker has refused: when it is tried again. It costs no attempt. */
  later(breakerWaitMs: number): RetryAfter;
  /** A message was delivered: those that wait are due. Never rejects. */
  delivered(): Promise<void>;
}

/** Messages that come back for the breaker's next trial. One would do; others may be taken by another process, or expire. */
const trialMessages = 3;
/** The others come back one by one, at this interval, so that many messages are not claimed and put back again and again. */
const spacingMs = 1_000;
const longestMs = 60 * 60_000;
/** Another process may hold messages back that this one could deliver, so this one makes them due from time to time. */
const releaseMs = 60_000;

export function heldBack(parts: ServiceParts, destination: string): HeldBack {
  const { outbox, reports, wake } = parts;
  const now = (): number => parts.now().getTime();
  const reason = `The service "${destination}" has been failing. The message waits until its circuit breaker lets it pass.`;
  /** As the dispatcher stores it. */
  const stored = describeThrown(new RetryAfter(1, reason, false));
  let trialAt = 0;
  let trials = 0;
  let lastAt = 0;
  let releaseAt = 0; // at the first delivery: an earlier process may have held some back

  const delayMs = (time: number, waitMs: number): number => {
    if (time >= trialAt) {
      trialAt = time + waitMs;
      trials = 0;
    }
    if (trials++ < trialMessages) return waitMs;
    lastAt = Math.max(lastAt, trialAt) + spacingMs;
    if (lastAt - time <= longestMs) return lastAt - time;
    lastAt = time + longestMs;
    return longestMs * (0.5 + Math.random() / 2);
  };

  /** One batch for each delivery, so that it takes no longer than they do. */
  const releasing = singleFlight(async () => {
    try {
      const { changed, more } = await outbox.makeDue(stored);
      if (!more) releaseAt = now() + releaseMs;
      if (changed > 0) wake();
    } catch (error) {
      reports.logger.warn("messages are still held back", { destination, error: safeReason(error) });
    }
  });

  return {
    later(breakerWaitMs) {
      releaseAt = 0;
      return withOwnText(new RetryAfter(delayMs(now(), breakerWaitMs), reason, false));
    },
    async delivered() {
      trialAt = 0;
      lastAt = 0;
      if (now() >= releaseAt) await releasing.run();
    },
  };
}
