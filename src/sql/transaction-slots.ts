import { abortable } from "../base/abortable.js";

export interface Slots {
  /** Waits until a slot is free. Returns the function that gives it back. */
  take(signal?: AbortSignal): Promise<() => void>;
}

/**
 * Limits how many transactions are open at once. One connection is kept for statements outside of them: renewals of leases
 * and acknowledgements would otherwise wait for the handlers of these same messages.
 */
export function transactionSlots(connections: number): Slots {
  let free = Math.max(1, connections - 1);
  const waiting: (() => void)[] = [];
  const release = (): void => {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  };
  const once = (): (() => void) => {
    let given = false;
    return () => {
      if (!given) release();
      given = true;
    };
  };
  return {
    async take(signal) {
      if (free > 0) free--;
      else await abortable(new Promise<void>((resolve) => waiting.push(resolve)), signal, { late: release });
      return once();
    },
  };
}
