/** So many keys are remembered; then all are forgotten, which costs a call too many and no memory. */
const most = 10_000;

/** Calls for a key at most once per interval. Measured from the call's start, and only of one that went out. */
export function onePerInterval(
  ms: number,
  call: (key: string) => Promise<void>,
  now: () => number = () => performance.now(),
): (key: string) => Promise<void> {
  const last = new Map<string, number>();
  return async (key) => {
    const startedAt = now();
    if (startedAt - (last.get(key) ?? Number.NEGATIVE_INFINITY) < ms) return;
    if (last.size >= most) last.clear();
    last.set(key, startedAt);
    try {
      await call(key);
    } catch (error) {
      last.delete(key);
      throw error;
    }
  };
}
