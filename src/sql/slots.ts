import { abortable } from "../base/abortable.js";

export interface Slots {
  /** Takes a slot if one is free. Returns the function that gives it back. */
  tryTake(): (() => void) | undefined;
  /** Waits until a slot is free. Returns the function that gives it back. */
  take(signal?: AbortSignal): Promise<() => void>;
}

export function slots(count: number): Slots {
  let free = count;
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
  const tryTake = (): (() => void) | undefined => {
    if (free === 0) return undefined;
    free--;
    return once();
  };
  return {
    tryTake,
    async take(signal) {
      const taken = tryTake();
      if (taken !== undefined) return taken;
      await abortable(new Promise<void>((resolve) => waiting.push(resolve)), signal, { late: release });
      return once();
    },
  };
}
