import { type CircuitBreaker, circuitBreaker, noBreaker } from "./circuit-breaker.js";
import type { Publisher, PublisherOptions } from "./publisher.js";

export const publisherOptionNames = ["breaker"];

/** A way to send with the destination's circuit breaker around it. */
export function guarded(destination: string, options: PublisherOptions, send: Publisher): Publisher {
  const breaker: CircuitBreaker =
    options.breaker === false ? noBreaker : circuitBreaker(destination, options.breaker);
  return (message, context) => breaker.run(() => send(message, context), context.signal);
}

/** Loaded when first needed; a failure is not kept. */
export function lazily<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () => {
    loading ??= load().catch((error) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}
