/** Passes wake-ups on to the runs that are subscribed at the moment. */
export interface WakeUps {
  wake(): void;
  /** Returns how to unsubscribe. */
  subscribe(wake: () => void): () => void;
}

export function wakeUps(): WakeUps {
  const subscribers = new Set<() => void>();
  return {
    wake() {
      for (const wake of subscribers) wake();
    },
    subscribe(wake) {
      subscribers.add(wake);
      return () => void subscribers.delete(wake);
    },
  };
}
