export interface AbortHooks<T> {
  /** Receives a result that arrives after the abort, to release what it holds. */
  readonly late?: (result: T) => void;
  /** Called on abort, to stop the work itself. */
  readonly cancel?: () => void;
}

const once = { once: true } as const;

/** Waits for `work`. An abort rejects at once with the signal's reason. */
export function abortable<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  { late, cancel }: AbortHooks<T> = {},
): Promise<T> {
  if (signal === undefined) return work;
  return new Promise<T>((resolve, reject) => {
    let isAborted = false;
    const stop = (): void => {
      isAborted = true;
      reject(signal.reason);
      cancel?.();
    };
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, once);
    work.then(
      (result) => {
        signal.removeEventListener("abort", stop);
        if (isAborted) late?.(result);
        else resolve(result);
      },
      (error: unknown) => {
        signal.removeEventListener("abort", stop);
        reject(error); // does nothing after an abort
      },
    );
  });
}
