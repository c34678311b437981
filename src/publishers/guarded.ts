import { abortAfter } from "../base/abort-after.js";
import { defined } from "../base/defined.js";
import { requireDuration } from "../queue/arguments.js";
import { type BreakerReports, type CircuitBreaker, circuitBreaker, noBreaker } from "./circuit-breaker.js";
import type { PublisherOptions } from "./publisher.js";

export const publisherOptionNames = ["timeoutMs", "breaker", "logger", "metrics"];

const defaultTimeoutMs = 30_000;

/** Puts the time limit and the destination's circuit breaker around `send`. Its signal aborts when the time is up. */
export function guarded<Message, Context extends { readonly signal: AbortSignal }, Result>(
  destination: string,
  options: PublisherOptions & Pick<BreakerReports, "now">,
  send: (message: Message, context: Context) => Promise<Result>,
): (message: Message, context: Context) => Promise<Result> {
  const { timeoutMs = defaultTimeoutMs, breaker: policy, logger, metrics, now } = options;
  requireDuration(timeoutMs, "publisher: timeoutMs");
  const breaker: CircuitBreaker =
    policy === false
      ? noBreaker
      : circuitBreaker(destination, { trialMs: timeoutMs, ...policy }, defined({ logger, metrics, now }));
  const tooLate = () => new Error(`${destination} did not take the message within ${timeoutMs} ms.`);
  return (message, context) => {
    const { signal: outer } = context;
    const sendInTime = () =>
      abortAfter(timeoutMs, (signal) => send(message, { ...context, signal }), tooLate, outer);
    return breaker.run(sendInTime, outer);
  };
}
