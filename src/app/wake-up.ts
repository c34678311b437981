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

export function coalesced(wakeUp: WakeUp, now: () => number = () => performance.now()): WakeUp {
  let last = Number.NEGATIVE_INFINITY;
  let inFlight: Promise<void> | undefined;
  return {
    async wake() {
      if (inFlight !== undefined) return inFlight;
      if (now() - last < wakeUpIntervalMs) return;
      // Measured from its start: a message that commits while the call runs is found by the dispatcher's second poll.
      const startedAt = now();
      inFlight = wakeUp.wake().finally(() => {
        inFlight = undefined;
      });
      await inFlight;
      last = startedAt; // only of a call that succeeded
    },
  };
}
