/** Lets timers, sockets and other work run before the caller goes on. */
export const yieldToEventLoop = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/** Waits. An abort rejects at once, with the signal's own reason, unlike `node:timers/promises`. */
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
