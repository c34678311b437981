/** Repeats some work until the signal is aborted, not while the tab is hidden. It stops when the work returns false. */
export async function repeat(
  signal: AbortSignal,
  everyMs: number,
  work: () => Promise<boolean | undefined>,
): Promise<void> {
  for (;;) {
    await pause(everyMs, signal);
    if (signal.aborted || (!document.hidden && (await work()) === false)) return;
  }
}

/** Resolves after the time, or at once when the signal is aborted. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const stop = () => {
      clearTimeout(timer);
      resolve();
    };
    signal.addEventListener("abort", stop, { once: true });
  });
