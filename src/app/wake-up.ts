import { singleFlight } from "../base/single-flight.js";

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
  const waking = singleFlight(async () => {
    // Measured from its start: a message that commits while the call runs is found by the dispatcher's second poll.
    const startedAt = now();
    await wakeUp.wake();
    last = startedAt; // only of a call that succeeded
  });
  return {
    async wake() {
      if (waking.current() === undefined && now() - last < wakeUpIntervalMs) return;
      await waking.run();
    },
  };
}
