import { abortable } from "../base/abortable.js";

export interface Slots {
  /** Waits until one is free; answers how to give it back. */
  take(signal?: AbortSignal): Promise<() => void>;
}

/**
 * How many transactions may be open at once. One connection is kept for statements outside of them: renewals of
 * leases and acknowledgements would otherwise wait for the very handlers that they are about.
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
