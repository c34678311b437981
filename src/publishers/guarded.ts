import { type CircuitBreaker, circuitBreaker, noBreaker } from "./circuit-breaker.js";
import type { Publisher, PublisherOptions } from "./publisher.js";

export const publisherOptionNames = ["breaker"];

/** Puts the destination's circuit breaker around `send`. */
export function guarded(destination: string, options: PublisherOptions, send: Publisher): Publisher {
  const breaker: CircuitBreaker =
    options.breaker === false ? noBreaker : circuitBreaker(destination, options.breaker);
  return (message, context) => breaker.run(() => send(message, context), context.signal);
}
