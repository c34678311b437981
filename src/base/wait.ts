/** `node:timers/promises` has both, but to load it takes half a millisecond of a function's cold start. */
export const yieldToEventLoop = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/** Rejects with the signal's own reason. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  let end = (): void => {};
  try {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, ms);
      const stop = (): void => reject(signal!.reason);
      signal?.addEventListener("abort", stop);
      end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", stop);
      };
    });
  } finally {
    end();
  }
}
