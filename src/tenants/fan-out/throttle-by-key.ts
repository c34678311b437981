/** Keys that are remembered. Beyond that all are forgotten, which costs a few calls more and bounds the memory. */
const mostKeys = 10_000;

/** Calls at most once per key and interval, measured from the start of the last call that succeeded. */
export function throttleByKey(
  intervalMs: number,
  call: (key: string) => Promise<void>,
  now: () => number = () => performance.now(),
): (key: string) => Promise<void> {
  const last = new Map<string, number>();
  return async (key) => {
    const startedAt = now();
    if (startedAt - (last.get(key) ?? Number.NEGATIVE_INFINITY) < intervalMs) return;
    if (last.size >= mostKeys) last.clear();
    last.set(key, startedAt);
    try {
      await call(key);
    } catch (error) {
      last.delete(key);
      throw error;
    }
  };
}
