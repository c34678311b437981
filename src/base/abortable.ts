export interface AbortHooks<T> {
  /** Gets what comes too late. */
  readonly late?: (result: T) => void;
  /** Tells the other side to give up too. */
  readonly cancel?: () => void;
}

const once = { once: true } as const;

/** Waits for `work`, or rejects with the signal's reason. One promise and one listener: it is in the way of every look at a tenant. */
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
        reject(error); // nobody hears it any more when it was aborted before
      },
    );
  });
}
