/** Starts a dispatcher somewhere, soon. It may be called for nothing, and may fail: the timer is the safety net. */
export interface WakeUp {
  wake(): Promise<void>;
  /** Gets ready for it (a client is loaded, say), where that takes time. */
  prepare?(): void;
}

/**
 * A burst of webhooks wakes the dispatcher once per interval. What arrives within the interval after a wake-up is
 * found by the dispatcher that it started, because that one looks once more after `lingerMs`, which is longer.
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
      // Measured from its start: what commits while it is on its way is committed before the dispatcher looks again.
      const startedAt = now();
      inFlight = wakeUp.wake().finally(() => {
        inFlight = undefined;
      });
      await inFlight;
      last = startedAt; // only of one that went out
    },
  };
}
